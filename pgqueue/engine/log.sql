-- name: read
-- The bounds are read in the same snapshot: what they include has been looked at, and where retention has
-- removed some of it, the floor says so. Except in a transaction whose snapshot is older than the drop: it sees
-- the old floor, but of partitions those there are now. So these are asked for by a function that looks now.
SELECT greatest(b.floor, CASE
           WHEN %(after)s >= b.head THEN 0
           WHEN pg_partition_root(to_regclass('pgqueue_event_' || (%(after)s::bigint + 1) / %(size)s)) IS NULL
           THEN ((%(after)s::bigint + 1) / %(size)s + 1) * %(size)s - 1
           ELSE 0 END),
       b.head, e.position, e.topic, e.key, e.payload, e.metadata, e.created_at
FROM (
-- include: bounds
) b
LEFT JOIN LATERAL (
    SELECT position, topic, key, payload::text AS payload, metadata::text AS metadata, created_at
    FROM pgqueue_event e
    WHERE position > %(after)s AND position <= %(after)s::bigint + %(reach)s AND ({condition})
    ORDER BY position
    LIMIT %(limit)s) e ON true
ORDER BY e.position

-- name: position_at
-- OFFSET 0, or the planner walks the log from its front to find the first.
SELECT coalesce(
    (SELECT min(position) - 1
     FROM (SELECT position FROM pgqueue_event WHERE created_at >= %(time)s OFFSET 0) later),
    (SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0)

-- name: is_anything_waiting
SELECT FROM pgqueue_event_inbox LIMIT 1
