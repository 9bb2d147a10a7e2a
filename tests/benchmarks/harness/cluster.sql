-- name: span
-- How many succeeded, and the seconds from the first claim to the last end.
SELECT count(*) FILTER (WHERE outcome = 'succeeded'),
       coalesce(extract(epoch FROM max(finished_at) - min(claimed_at)), 0)::float8
FROM pgqueue_history

-- name: serving
-- Workers that are idle.
SELECT count(*) FROM pgqueue_worker WHERE notify_until > statement_timestamp()
