-- name: live
-- The given messages that have not ended.
SELECT id
FROM pgqueue_message
WHERE id = ANY (%(ids)s::bigint[]) AND state IN ('held', 'scheduled', 'ready', 'running')

-- name: announce
INSERT INTO pgqueue_waiter (message_id, until)
SELECT message_id, statement_timestamp() + %(lasting)s::interval
FROM unnest(%(ids)s::bigint[]) AS i (message_id)
RETURNING message_id, id

-- name: renew
UPDATE pgqueue_waiter
SET until = statement_timestamp() + %(lasting)s::interval
WHERE id = ANY (%(rows)s::bigint[])

-- name: withdraw
DELETE FROM pgqueue_waiter WHERE id = ANY (%(rows)s::bigint[])

-- name: forget
-- Delete the rows of processes that died while waiting.
DELETE FROM pgqueue_waiter WHERE until < statement_timestamp()

-- name: over
SELECT ctid::text, id FROM pgqueue_waiter WHERE until < statement_timestamp() FOR UPDATE SKIP LOCKED

-- name: look
-- A message moves from one table to the other in one statement: one snapshot always finds it.
SELECT id, state, attempt, failures + lost, progress::text, NULL::text
FROM pgqueue_message
WHERE id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT id, outcome, attempt, failures + lost, progress::text, result::text
FROM pgqueue_history
WHERE id = ANY (%(ids)s::bigint[])
