-- name: missing
-- The UTC days without a partition, in the schema of the history table, which need not be first in the
-- search_path. From yesterday on: around midnight a run may end before its settle begins.
SELECT day::date, n.nspname
FROM pg_class history JOIN pg_namespace n ON n.oid = history.relnamespace, generate_series(
    date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') - interval '1 day',
    date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') + %(days)s * interval '1 day',
    interval '1 day') AS day
WHERE history.oid = 'pgqueue_history'::regclass
  AND NOT EXISTS (
    SELECT
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = history.oid
      AND c.relname = 'pgqueue_history_' || to_char(day, 'YYYYMMDD'))
ORDER BY day

-- name: past
-- The days whose retention is over or that are empty, and those whose drop was begun and interrupted.
-- Never yesterday: around midnight a run may end before its settle begins. A table that an operator has
-- detached belongs to the operator. So that it is not taken for one of ours, a mark on a day that is still
-- attached is stale, and is returned, too.
WITH
-- include: kept
, days AS (
    SELECT n.nspname, c.oid, c.relname, i.inhrelid IS NOT NULL AS is_attached,
           coalesce(i.inhdetachpending, false) AS is_pending,
           coalesce(obj_description(c.oid, 'pg_class') = %(mark)s, false) AS is_marked
    FROM pg_class history
    JOIN pg_namespace n ON n.oid = history.relnamespace
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' AND c.relname ~ '^pgqueue_history_[0-9]{8}$'
    LEFT JOIN pg_inherits i ON i.inhparent = history.oid AND i.inhrelid = c.oid
    WHERE history.oid = 'pgqueue_history'::regclass
      AND (%(only)s::text IS NULL OR c.relname = %(only)s::text)
)
SELECT nspname, relname, is_attached, is_pending, is_attached AND NOT is_pending AND is_marked AS is_stale
FROM days
WHERE is_marked OR CASE
    WHEN is_pending OR NOT is_attached THEN false
    WHEN to_date(right(relname, 8), 'YYYYMMDD') >= (statement_timestamp() AT TIME ZONE 'UTC')::date - 1 THEN false
    ELSE pg_relation_size(oid) = 0
         OR to_date(right(relname, 8), 'YYYYMMDD') + 1 <= (
            SELECT (statement_timestamp() - max(keep)) AT TIME ZONE 'UTC' FROM kept)
    END
ORDER BY NOT is_pending, relname

-- name: raise_floor
-- Before a day goes: a reader that follows history and is behind it finds out by this.
INSERT INTO pgqueue_log_floor (log, position) VALUES ('history', %(position)s)
ON CONFLICT (log) DO UPDATE SET position = greatest(pgqueue_log_floor.position, excluded.position)

-- name: try_for_session
-- One session at a time drops days.
SELECT pg_try_advisory_lock('pgqueue_history'::regclass::oid::bigint)

-- name: leave
SELECT pg_advisory_unlock('pgqueue_history'::regclass::oid::bigint)

-- name: try_for_transaction
SELECT pg_try_advisory_xact_lock('pgqueue_history'::regclass::oid::bigint)
