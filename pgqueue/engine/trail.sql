-- name: partitions
-- The partitions of the log, the newest first, each with its first position.
SELECT c.oid::bigint, substring(c.relname FROM '\d+$')::bigint * %(size)s
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'pgqueue_event'::regclass
ORDER BY 2 DESC

-- name: read
SELECT position, topic, key, payload::text, metadata::text, created_at
FROM pgqueue_trail_v1(%(part)s::oid, %(topics)s::text[], %(key)s, %(limit)s)
ORDER BY position DESC

-- name: time_after
SELECT created_at FROM pgqueue_event WHERE position >= %(position)s ORDER BY position LIMIT 1

-- name: index
-- A Bloom filter for every 64 pages, of up to 5 500 keys.
CREATE INDEX pgqueue_event_key ON pgqueue_event USING brin (key text_bloom_ops (n_distinct_per_range = -0.3))
WITH (pages_per_range = 64, autosummarize = on)

-- name: drop_index
DROP INDEX pgqueue_event_key
