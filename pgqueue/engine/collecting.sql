-- name: waiting
-- Locked until the transaction ends: no claim takes the message, and no other producer changes it. If a claim has locked
-- it, this waits, and finds no message that waits. A message of a flow takes no arguments of others.
SELECT id, task, coalesce(payload::text, 'null'), state = 'held'
FROM pgqueue_message
WHERE channel = %(channel)s AND dedupe_key = %(dedupe_key)s AND state IN ('held', 'scheduled', 'ready')
  AND flow_id IS NULL
LIMIT 1
FOR UPDATE

-- name: give_up_key
-- The message takes no more arguments: the next message gets its key, as after a claim.
UPDATE pgqueue_message SET dedupe_key = NULL WHERE id = %(id)s
