-- name: now
SELECT clock_timestamp(), pg_current_wal_insert_lsn() - '0/0', (SELECT count(*) FROM pgqueue_history)

-- name: waits
-- The most messages that waited at one moment, and the 99th percentile of their waits in ms. All of them have ended by now,
-- so that history tells how many waited at each moment: to count them meanwhile would walk over the dead rows.
WITH ended AS MATERIALIZED (
    SELECT created_at, started_at FROM pgqueue_history WHERE created_at >= %(since)s AND started_at IS NOT NULL
), moments AS (
    SELECT created_at AS at, 1 AS change FROM ended
    UNION ALL
    SELECT greatest(started_at, created_at), -1 FROM ended
)
SELECT (SELECT max(depth) FROM (SELECT sum(change) OVER (ORDER BY at, change DESC) AS depth FROM moments) depths)::int,
       (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - created_at)::float8 * 1000)
        FROM ended)

-- name: dead
SELECT coalesce(sum(n_dead_tup), 0)::int FROM pg_stat_user_tables WHERE relname LIKE %(name)s
