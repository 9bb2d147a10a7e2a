-- name: prepare
-- For this transaction only, since a pooler may lend the connection to others next. Times come as
-- pyarrow reads them.
-- include: no_timeouts
UNION ALL
SELECT set_config(name, value, true)
FROM (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('bytea_output', 'hex'), ('jit', 'off')) AS wanted (name, value)

-- name: by_index
-- Whatever the statistics say: blocks are read by their numbers, a range is a small part of history, and what
-- a message of a flow waited for is looked up for each of them. One process alone returns blocks in their order.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true)

-- name: give
-- COPY takes no parameters: the query reads them back from settings.
SELECT set_config('pgqueue.' || %(name)s, %(value)s, true)

-- name: found
-- These functions see what is there now, whatever the snapshot of the transaction.
SELECT pg_relation_filenode(%(oid)s::oid), pg_partition_root(%(oid)s::oid) IS NOT NULL

-- name: was_visible
-- In a sub-select, the setting is read once and not for each row.
(r.txid < (SELECT pg_snapshot_xmin(current_setting('pgqueue.cutoff')::pg_snapshot)::text::bigint)
 OR pg_visible_in_snapshot(r.txid::text::xid8, (SELECT current_setting('pgqueue.cutoff')::pg_snapshot)))

-- name: name_reader
-- The process that holds the snapshot looks for this name.
SELECT set_config('application_name', %(name)s, true)

-- name: give_all
SELECT set_config('pgqueue.' || %(name)s, %(values)s::text[]::text, true)
