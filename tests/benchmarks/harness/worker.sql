-- name: idle
-- It asks for notices before its listener is connected: look for both; and it may have been told of
-- what it has not ended yet.
SELECT NOT EXISTS (SELECT FROM pgqueue_message)
AND EXISTS (
    SELECT FROM pgqueue_worker WHERE notify_until > clock_timestamp()
) AND EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'pgqueue listener'
      AND state = 'idle' AND query LIKE 'LISTEN%'
)

-- name: busy
SELECT EXISTS (SELECT FROM pgqueue_worker)
   AND NOT EXISTS (SELECT FROM pgqueue_worker WHERE notify_until > clock_timestamp())
