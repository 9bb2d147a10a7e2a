-- name: missing
-- The UTC days without a partition, with the schema of the history table, which need not be first in the
-- search_path. They begin with yesterday: around midnight a run may end before its settle begins.
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
-- The days that are empty or whose retention is over, and days whose drop was interrupted. Yesterday is kept: around
-- midnight a run may end before its settle begins. Days since the begin of a living flow are kept, too: its messages
-- may still need the results of others.
WITH
-- include: kept
,
-- include: parts
-- include: past_parts
WHERE is_marked OR CASE
    WHEN is_pending OR NOT is_attached THEN false
    WHEN to_date(right(relname, 8), 'YYYYMMDD') >= (statement_timestamp() AT TIME ZONE 'UTC')::date - 1 THEN false
    ELSE pg_relation_size(oid) = 0
         OR to_date(right(relname, 8), 'YYYYMMDD') + 1 <= least(
            (SELECT (
-- include: retained_at
             - max(keep)) AT TIME ZONE 'UTC' FROM kept),
            (SELECT min(created_at) AT TIME ZONE 'UTC' FROM pgqueue_flow WHERE ended_at IS NULL))
    END
ORDER BY NOT is_pending, relname
