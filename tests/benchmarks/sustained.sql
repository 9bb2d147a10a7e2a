-- name: reached
-- The size of all partitions and indexes, and the rows of messages and history together.
SELECT (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        WHERE c.relkind = 'r' AND (c.relname = 'pgqueue_message' OR c.relname LIKE 'pgqueue\_history\_%'))::float8 / 1e6,
       (SELECT count(*) FROM pgqueue_message) + (SELECT count(*) FROM pgqueue_history)

-- name: is_done
SELECT NOT EXISTS (SELECT FROM pgqueue_message)
