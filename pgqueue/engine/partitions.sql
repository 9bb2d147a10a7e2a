-- name: missing
-- In the schema that history is in, which need not come first in the search_path.
-- The UTC days that history has no partition for. From yesterday on: around midnight a run
-- may have ended before its settle begins.
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
