-- name: prepare
-- For this transaction only, since a pooler may lend the connection to another client next. The format
-- of times is the one that pyarrow reads.
-- include: no_timeouts
UNION ALL
SELECT set_config(name, value, true)
FROM (VALUES ('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('bytea_output', 'hex'), ('jit', 'off')) AS wanted (name, value)

-- name: by_index
-- The planner must use indexes, whatever its statistics are. A read takes blocks by their numbers or a small
-- range of history, and looks up the parents of each message of a flow. Only a single process returns blocks in
-- their order.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true)

-- name: give
-- COPY takes no parameters, so the query reads its values from settings.
SELECT set_config('pgqueue.' || %(name)s, %(value)s, true)

-- name: found
-- These functions see the current tables, not the ones of the transaction's snapshot.
SELECT pg_relation_filenode(%(oid)s::oid), pg_partition_root(%(oid)s::oid) IS NOT NULL

-- name: was_visible
-- In a sub-select, PostgreSQL reads the setting once and not for each row.
(r.txid < (SELECT pg_snapshot_xmin(current_setting('pgqueue.cutoff')::pg_snapshot)::text::bigint)
 OR pg_visible_in_snapshot(r.txid::text::xid8, (SELECT current_setting('pgqueue.cutoff')::pg_snapshot)))

-- name: name_reader
-- The process that holds the snapshot counts the sessions of this name.
SELECT set_config('application_name', %(name)s, true)

-- name: give_all
SELECT set_config('pgqueue.' || %(name)s, %(values)s::text[]::text, true)
