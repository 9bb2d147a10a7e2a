-- name: workers
-- A worker that serves no channel does only duties.
SELECT CASE WHEN info ? 'receives' THEN 'consumer'
            WHEN info ? 'master' THEN 'driver'
            WHEN channels = '{}' THEN 'duties'
            ELSE 'worker' END,
       host, pid, info ->> 'version', extract(epoch FROM statement_timestamp() - last_seen)::float8,
       CASE jsonb_typeof(info -> 'busy_for')
            WHEN 'number' THEN (info ->> 'busy_for')::float8
            ELSE 0 END,
       CASE WHEN info ->> 'left_out' ~ '^[0-9]{1,9}$' THEN (info ->> 'left_out')::int ELSE 0 END
FROM pgqueue_worker
ORDER BY host, pid

-- name: paused
SELECT name FROM pgqueue_channel WHERE
-- include: is_paused

-- name: duties
-- The seconds since each duty was due, since it was last done, and since it has been failing.
SELECT name, extract(epoch FROM statement_timestamp() - due_at)::float8,
       extract(epoch FROM statement_timestamp() - ran_at)::float8,
       extract(epoch FROM statement_timestamp() - failing_since)::float8
FROM pgqueue_duty

-- name: days_ahead
-- The number of days after today with a partition, without a gap; -1: today has none.
SELECT n - 1
FROM (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) t
CROSS JOIN generate_series(0, 366) AS n
WHERE NOT EXISTS (
    SELECT
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'pgqueue_history'::regclass
      AND c.relname = 'pgqueue_history_' || to_char(today + n, 'YYYYMMDD'))
ORDER BY n
LIMIT 1

-- name: size
-- The table of live messages: its bytes, the bytes of its indexes, and PostgreSQL's estimates of its rows
-- and dead rows.
SELECT pg_relation_size('pgqueue_message'), pg_indexes_size('pgqueue_message'),
       pg_stat_get_live_tuples('pgqueue_message'::regclass), pg_stat_get_dead_tuples('pgqueue_message'::regclass)

-- name: horizon
-- Sessions, prepared transactions and slots that keep dead rows from being vacuumed, or hold back streams of history.
-- Each has the number of its transactions, and its seconds if known; the oldest comes first. A transaction that writes
-- in another database holds streams back, too, since they wait for all transactions of the cluster. VACUUM's own
-- processes are left out: their snapshots hold no rows back.
SELECT kind, who, transactions, seconds
FROM (
    SELECT 'transaction' AS kind, 'pid ' || pid || ' (' || coalesce(application_name, '') || ')' ||
           CASE WHEN datname <> current_database() THEN ' in the database ' || datname ELSE '' END AS who,
           greatest(CASE WHEN datname <> current_database() THEN NULL ELSE age(backend_xmin) END,
                    age(backend_xid)) AS transactions,
           extract(epoch FROM statement_timestamp() - xact_start)::float8 AS seconds
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid()
      AND coalesce(leader_pid, pid) NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT 'prepared transaction',
           gid || CASE WHEN database <> current_database() THEN ' in the database ' || database ELSE '' END,
           age(transaction), extract(epoch FROM statement_timestamp() - prepared)::float8
    FROM pg_prepared_xacts
    UNION ALL
    SELECT 'replication slot', slot_name, age(xmin), NULL
    FROM pg_replication_slots) h
WHERE transactions IS NOT NULL
ORDER BY transactions DESC, seconds DESC NULLS LAST

-- name: hidden
-- Sessions that only a member of pg_read_all_stats may look into.
SELECT count(*) FROM pg_stat_activity
WHERE query = '<insufficient privilege>' AND datname = current_database()

-- name: connections
SELECT sum(numbackends)::int,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
FROM pg_stat_database

-- name: notifications
-- The full share of the queue of notifications, and the sessions with the longest transactions. At 1, each commit
-- that notifies fails. A listening session in an old transaction keeps the queue from being emptied.
SELECT pg_notification_queue_usage(), ARRAY(
    SELECT 'pid ' || pid || ' (' || coalesce(application_name, '') || '), in a transaction for '
           || round(extract(epoch FROM statement_timestamp() - xact_start)) || ' s'
    FROM pg_stat_activity
    WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    ORDER BY xact_start
    LIMIT 3)

-- name: locks
-- The sessions that have a lock which others may need, with its seconds (NULL: hidden from this role). These locks are
-- an advisory lock that others wait for, the lock for dropping partitions, which no session waits for, and the row of
-- the sequencer or the router. A prepared transaction has no session; the lock of its own id leads to its name.
WITH advisory AS (
    SELECT pid, virtualtransaction, granted, waitstart, classid, objid, objsubid
    FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), found AS (
    SELECT 'an advisory lock that others wait for' AS what, had.pid, had.virtualtransaction,
           (SELECT min(w.waitstart) FROM advisory w
            WHERE NOT w.granted AND (w.classid, w.objid, w.objsubid) = (had.classid, had.objid, had.objsubid)) AS since
    FROM advisory had
    WHERE had.granted AND (had.classid, had.objid, had.objsubid) IN (
        SELECT w.classid, w.objid, w.objsubid FROM advisory w WHERE NOT w.granted AND w.waitstart IS NOT NULL)
    UNION ALL
    SELECT 'the lock for dropping partitions', had.pid, had.virtualtransaction, NULL
    FROM advisory had
    WHERE had.granted AND had.objsubid = 1 AND had.classid = 0
      AND had.objid IN (to_regclass('pgqueue_history'), to_regclass('pgqueue_event'))
    UNION ALL
    SELECT 'the lock of the router or the sequencer', l.pid, l.virtualtransaction, NULL
    FROM pg_locks l
    WHERE l.relation = to_regclass('pgqueue_lock') AND l.mode = 'RowShareLock' AND l.granted
), prepared AS (
    SELECT l.virtualtransaction, p.gid, p.prepared
    FROM pg_prepared_xacts p JOIN pg_locks l ON l.transactionid = p.transaction AND l.pid IS NULL
)
SELECT f.what,
       CASE WHEN f.pid IS NULL THEN 'the prepared transaction ' || coalesce(p.gid, '')
            ELSE 'pid ' || f.pid || coalesce(' of the role ' || a.usename, '') END,
       extract(epoch FROM clock_timestamp() - coalesce(f.since, p.prepared, a.xact_start, a.state_change))::float8
FROM found f
LEFT JOIN pg_stat_activity a ON a.pid = f.pid
LEFT JOIN prepared p ON f.pid IS NULL AND p.virtualtransaction = f.virtualtransaction
WHERE f.pid IS DISTINCT FROM pg_backend_pid()
  -- A session that ends just now has its locks a moment longer than its row.
  AND (f.pid IS NULL OR a.pid IS NOT NULL)
ORDER BY 3 DESC NULLS LAST, 2

-- name: groups
-- The lag of each group by its slowest partition, and the seconds for which the partition's next event has waited. The
-- next event was removed if another one is behind it: positions have no gaps.
SELECT c."group", b.head - c.position, c.stopped,
       c.position < b.head AND NOT EXISTS (SELECT FROM pgqueue_event WHERE position = c.position + 1),
-- include: event_waited
FROM (
    SELECT "group", min(position) AS position, count(*) FILTER (WHERE is_stopped) AS stopped
    FROM pgqueue_cursor
    WHERE "group" <> '' OR EXISTS (SELECT FROM pgqueue_subscription WHERE follows)
    GROUP BY "group") c
CROSS JOIN (
-- include: bounds
) b
ORDER BY c."group"

-- name: webhooks
-- A webhook that a worker stopped has an error; one that an operator paused has none.
SELECT s.name, CASE WHEN s.paused THEN s.error ELSE '' END, w.failures,
       extract(epoch FROM statement_timestamp() - w.failing_since)::float8
FROM pgqueue_webhook w JOIN pgqueue_subscription s ON s.name = w.subscription_id
WHERE (s.paused AND s.error <> '') OR (w.enabled AND w.failures > 0)
ORDER BY s.name

-- name: flows
-- The number of flows that have not ended, and the number with a dead message: such a flow ends only after the message
-- is replayed or discarded. Flows and dead letters are counted up to a bound.
SELECT (SELECT count(*) FROM (SELECT FROM pgqueue_flow WHERE ended_at IS NULL LIMIT %(bound)s) living),
       (SELECT count(DISTINCT flow_id) FROM (
            SELECT flow_id FROM pgqueue_message WHERE state = 'dead' ORDER BY channel, key, id LIMIT %(bound)s) dead)

-- name: schedules
SELECT name, greatest(extract(epoch FROM statement_timestamp() - next_at), 0)::float8
FROM pgqueue_schedule
WHERE NOT paused AND next_at IS NOT NULL
ORDER BY next_at, name
LIMIT %(limit)s

-- name: subscriptions
-- Subscriptions that follow have the position of the dispatch. A paused subscription keeps its events. A webhook that is
-- not enabled skips them.
SELECT s.name, greatest(b.head - s.position, 0)
FROM pgqueue_subscription s
CROSS JOIN (
-- include: bounds
) b
WHERE NOT s.follows AND s.name NOT IN (SELECT subscription_id FROM pgqueue_webhook WHERE NOT enabled)
ORDER BY s.position, s.name
LIMIT %(limit)s
