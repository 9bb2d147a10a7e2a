-- name: find
-- A message moves from one table to the other in one statement: one snapshot always finds it.
SELECT id, state, channel, task, payload::text, metadata::text, options::text, priority, key, run_at, attempt,
       failures, lost, max_attempts, errors::text, created_at, claimed_at, started_at, NULL::timestamptz,
       worker_id, progress::text, NULL::text, ordered, flow_id
FROM pgqueue_message
WHERE id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT id, outcome, channel, task, payload::text, metadata::text, options::text, priority, key, run_at, attempt,
       failures, lost, max_attempts, errors::text, created_at, claimed_at, started_at, finished_at,
       worker_id, progress::text, result::text, ordered, flow_id
FROM pgqueue_history
WHERE id = ANY (%(ids)s::bigint[])

-- name: may_read
-- A producer's role has no right to read the columns of messages, not even of its own ones.
SELECT has_table_privilege('pgqueue_message', 'SELECT')
