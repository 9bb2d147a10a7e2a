-- name: workers
-- A worker that serves no channel does only duties.
SELECT CASE WHEN info ? 'receives' THEN 'consumer'
            WHEN info ? 'master' THEN 'driver'
            WHEN channels = '{}' THEN 'duties'
            ELSE 'worker' END,
       host, pid, info ->> 'version', extract(epoch FROM statement_timestamp() - last_seen)::float8
FROM pgqueue_worker
ORDER BY host, pid

-- name: paused
SELECT name FROM pgqueue_channel WHERE paused

-- name: duties
-- The seconds since each was due, and since it was last done.
SELECT name, extract(epoch FROM statement_timestamp() - due_at)::float8,
       extract(epoch FROM statement_timestamp() - ran_at)::float8
FROM pgqueue_duty

-- name: days_ahead
-- How many days after today have a partition, without a gap; -1: today has none.
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
-- What keeps dead rows from being vacuumed: for how many transactions, and seconds if known; oldest
-- first. VACUUM's own processes are left out: their snapshots hold nothing back.
SELECT kind, who, transactions, seconds
FROM (
    SELECT 'transaction' AS kind, 'pid ' || pid || ' (' || coalesce(application_name, '') || ')' AS who,
           greatest(age(backend_xmin), age(backend_xid)) AS transactions,
           extract(epoch FROM statement_timestamp() - xact_start)::float8 AS seconds
    FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
      AND coalesce(leader_pid, pid) NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT 'prepared transaction', gid, age(transaction),
           extract(epoch FROM statement_timestamp() - prepared)::float8
    FROM pg_prepared_xacts
    WHERE database = current_database()
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

-- name: groups
-- How far each group is behind: by its slowest partition, whose next event has waited for so many seconds; it
-- may not even have a position yet, where nobody reads. What is below the floor is gone.
SELECT c."group", b.head - c.position, c.stopped, c.position < b.floor,
       extract(epoch FROM statement_timestamp() - coalesce(
           (SELECT created_at FROM pgqueue_event WHERE position = greatest(c.position, b.floor) + 1),
           (SELECT created_at FROM pgqueue_event_inbox ORDER BY id LIMIT 1)))::float8
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
-- What a worker stopped has an error; what an operator paused has none.
SELECT s.name, CASE WHEN s.paused THEN s.error ELSE '' END, w.failures,
       extract(epoch FROM statement_timestamp() - w.failing_since)::float8
FROM pgqueue_webhook w JOIN pgqueue_subscription s ON s.name = w.subscription_id
WHERE (s.paused AND s.error <> '') OR (w.enabled AND w.failures > 0)
ORDER BY s.name

-- name: flows
-- Flows that have not ended, and those of them with a dead message: they can't end before it is replayed or
-- discarded. Counted up to a bound, of flows and of dead letters.
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
-- Those that follow are as far as the dispatch. One that is paused keeps its events.
SELECT s.name, greatest(b.head - s.position, 0)
FROM pgqueue_subscription s
CROSS JOIN (
-- include: bounds
) b
WHERE NOT s.follows
ORDER BY s.position, s.name
LIMIT %(limit)s
