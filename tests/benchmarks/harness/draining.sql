-- name: settler_paused
-- While there is work, the settler never pauses for as long as this.
SELECT max(state_change)
FROM pg_stat_activity
WHERE datname = current_database()
  AND application_name = 'pgqueue settler'
  AND state = 'idle'
  AND state_change < clock_timestamp() - interval '0.3 seconds'

-- name: clock
SELECT clock_timestamp()
