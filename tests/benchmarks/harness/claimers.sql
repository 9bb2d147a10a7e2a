-- name: left
SELECT EXISTS (SELECT FROM pgqueue_message WHERE state = 'ready')

-- name: waits
-- The sessions that claim, by the event that each waits for: `client` if the server waits for the client, `cpu` if it waits for
-- nothing and so runs, or wants to run.
SELECT CASE WHEN state IS DISTINCT FROM 'active' OR wait_event_type = 'Client' THEN 'client'
            WHEN wait_event IS NULL THEN 'cpu'
            ELSE lower(wait_event_type || '_' || wait_event) END,
       count(*)::int
FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE '%pgqueue claimer'
GROUP BY 1

-- name: locks
-- The largest number of locks of one session. Up to 64 of them are cheap, by the default of max_locks_per_transaction.
SELECT coalesce(max(count), 0)::int
FROM (SELECT count(*) AS count
      FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE datname = current_database() AND application_name LIKE '%pgqueue claimer'
      GROUP BY pid) each_of
