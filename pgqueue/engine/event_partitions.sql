-- name: missing
-- The missing partitions, from the one of the next position on, with the schema of the log, which need not be first
-- in the search_path.
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

-- name: pace
-- The seconds in which a partition is filled, by the time of the last million events, or of all events if fewer.
WITH head AS MATERIALIZED (
    SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1
)
SELECT (%(size)s * extract(epoch FROM statement_timestamp() - first.created_at)
        / (head.position - first.position))::float8
FROM head
CROSS JOIN LATERAL (
    SELECT position, created_at FROM pgqueue_event
    WHERE position > head.position - %(size)s AND position < head.position
    ORDER BY position LIMIT 1) first
