-- name: missing
-- From the one that the next position belongs to; in the schema of the log, which need not be first in the
-- search_path.
WITH next AS (
    SELECT greatest((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
                    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) + 1 AS position
)
SELECT n.nspname, number
FROM pg_class log
JOIN pg_namespace n ON n.oid = log.relnamespace
CROSS JOIN next
CROSS JOIN LATERAL generate_series(position / %(size)s, position / %(size)s + %(ahead)s) AS number
WHERE log.oid = 'pgqueue_event'::regclass
  AND NOT EXISTS (
    SELECT
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = log.oid AND c.relname = 'pgqueue_event_' || number)
ORDER BY number
