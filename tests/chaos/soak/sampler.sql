-- name: ended
-- Since the last sample. Whatever has ended since then was there at that time, or is newer: so only
-- ids from the oldest of then are looked at, and a sample costs the same however long history is.
SELECT statement_timestamp(), count(*), percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (
           ORDER BY extract(epoch FROM started_at - run_at)::float * 1000)
       FILTER (WHERE channel = 'default' AND started_at IS NOT NULL)
FROM pgqueue_history
WHERE id >= %(oldest)s AND finished_at > %(since)s AND channel NOT IN ('probe', 'probe, governed')

-- name: backlog
-- Without the bursts, as above: how much of one is left at a moment tells nothing.
SELECT state, count(*), min(id) FILTER (WHERE state <> 'dead')
FROM pgqueue_message
WHERE channel NOT IN ('probe', 'probe, governed')
GROUP BY state

-- name: sizes
SELECT c.relname, pg_relation_size(c.oid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'pgqueue_message'::regclass
UNION ALL
SELECT 'pgqueue_message', pg_relation_size('pgqueue_message')
UNION ALL
SELECT 'toast', pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'pgqueue_message'::regclass
UNION ALL
SELECT 'pgqueue_history', sum(pg_total_relation_size(inhrelid))::bigint
FROM pg_inherits WHERE inhparent = 'pgqueue_history'::regclass

-- name: tuples
SELECT CASE WHEN relname LIKE 'pgqueue_history_%%' THEN 'pgqueue_history' ELSE relname END,
       sum(n_dead_tup)::int, sum(autovacuum_count)::int
FROM pg_stat_user_tables
WHERE relname = 'pgqueue_message' OR relname LIKE 'pgqueue_history_%%'
GROUP BY 1
