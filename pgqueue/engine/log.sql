-- name: read
-- The bounds are read in the same snapshot as the events. So all positions within them were looked at, and the floor
-- covers the events that retention has removed. But a transaction with a snapshot older than a drop sees the old floor
-- and the present partitions. So the statement also asks a function whether the partition exists now.
SELECT greatest(b.floor, CASE
           WHEN %(after)s >= b.head THEN 0
           WHEN pg_partition_root(to_regclass('pgqueue_event_' || (%(after)s::bigint + 1) / %(size)s)) IS NULL
           THEN ((%(after)s::bigint + 1) / %(size)s + 1) * %(size)s - 1
           ELSE 0 END),
       b.head, e.is_in, e.position, e.topic, e.key, CASE WHEN e.is_in THEN e.payload::text END,
       CASE WHEN e.is_in THEN e.metadata::text END, e.created_at
FROM (
-- include: bounds
) b
LEFT JOIN LATERAL (
    -- A payload may have 16 MB. Events beyond the limit of bytes are left to the next read.
    SELECT position, topic, key, payload, metadata, created_at,
           coalesce(sum(pg_column_size(payload)) OVER (
               ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < %(bytes)s AS is_in
    FROM pgqueue_event e
    WHERE position > %(after)s AND position <= %(after)s::bigint + %(reach)s AND ({condition})
    ORDER BY position
    LIMIT %(limit)s) e ON true
ORDER BY e.position

-- name: beginning
-- A partition at the front that an operator has detached does not count in the floor.
SELECT greatest(floor, coalesce((SELECT position FROM pgqueue_event ORDER BY position LIMIT 1) - 1, head)), head
FROM (
-- include: bounds
) b

-- name: position_at
-- OFFSET 0 keeps the planner from walking the log from its front to find the first event.
SELECT coalesce(
    (SELECT min(position) - 1
     FROM (SELECT position FROM pgqueue_event WHERE created_at >= %(time)s OFFSET 0) later),
    (SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0)

-- name: is_anything_waiting
-- A role without the right to store in the log leaves the events to other roles.
SELECT FROM pgqueue_event_inbox
WHERE has_table_privilege('pgqueue_event'::regclass, 'INSERT') AND id > %(after)s
ORDER BY id
LIMIT 1

-- name: last_published
-- The last id that was given to an event, whether or not its transaction was committed.
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('pgqueue_event_inbox', 'id')::regclass), 0)

-- name: is_next_older
SELECT coalesce(
    (SELECT created_at FROM pgqueue_event WHERE position > %(after)s ORDER BY position LIMIT 1)
    < statement_timestamp() - %(age)s::interval, false)

-- name: meeting
-- Each condition is parsed once, not once for each event.
WITH condition AS MATERIALIZED (
    SELECT number, path::jsonpath, vars::jsonb
    FROM unnest(%(paths)s::text[], %(vars)s::text[]) WITH ORDINALITY c (path, vars, number)
), asked AS MATERIALIZED (
    SELECT * FROM unnest(%(numbers)s::int[], %(positions)s::bigint[]) a (number, position)
), event AS MATERIALIZED (
    SELECT position, pgqueue_comparable_v1(coalesce(payload, 'null')) AS comparable
    FROM pgqueue_event WHERE position = ANY (%(positions)s::bigint[])
)
SELECT number - 1, position
FROM asked JOIN condition USING (number) JOIN event USING (position)
WHERE jsonb_path_match(comparable, path, vars, true)

-- name: partitions
-- The partitions of the log, the newest first, each with its first position.
SELECT c.oid::bigint, substring(c.relname FROM '\d+$')::bigint * %(size)s
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'pgqueue_event'::regclass
ORDER BY 2 DESC

-- name: read_backwards
SELECT position, topic, key, payload::text, metadata::text, created_at
FROM pgqueue_trail_v1(%(part)s::oid, %(topics)s::text[], %(key)s, %(limit)s)
ORDER BY position DESC

-- name: time_after
SELECT created_at FROM pgqueue_event WHERE position >= %(position)s ORDER BY position LIMIT 1

-- name: index_keys
-- A Bloom filter for every 64 pages, of up to 5 500 keys.
CREATE INDEX pgqueue_event_key ON pgqueue_event USING brin (key text_bloom_ops (n_distinct_per_range = -0.3))
WITH (pages_per_range = 64, autosummarize = on)

-- name: drop_index_of_keys
DROP INDEX pgqueue_event_key

-- name: index_streams
CREATE INDEX pgqueue_event_stream ON pgqueue_event (key, topic, position) WHERE key <> ''

-- name: index_inbox
CREATE INDEX pgqueue_event_inbox_stream ON pgqueue_event_inbox (key, topic) WHERE key <> ''

-- name: drop_index_of_streams
DROP INDEX pgqueue_event_stream

-- name: drop_index_of_inbox
DROP INDEX pgqueue_event_inbox_stream
