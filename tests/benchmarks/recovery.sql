-- name: registered
SELECT count(*) FROM pgqueue_worker

-- name: forget
-- Workers that were killed before.
DELETE FROM pgqueue_worker

-- name: running
SELECT count(*) FROM pgqueue_message WHERE state = 'running'

-- name: victim
-- The process that holds most.
SELECT w.pid, array_agg(m.id)
FROM pgqueue_message m
JOIN pgqueue_worker w ON w.id = m.worker_id
WHERE m.state = 'running'
GROUP BY w.pid
ORDER BY count(*) DESC
LIMIT 1

-- name: clock
SELECT clock_timestamp()

-- name: rescued
SELECT bool_and(lost > 0),
       extract(epoch FROM clock_timestamp() - greatest(
           %(died_at)s::timestamptz,
           (SELECT max(backend_start) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = %(rescuer)s)))::float8
FROM pgqueue_message
WHERE id = ANY (%(held)s::bigint[])
