-- name: waiting
-- Locked until the transaction ends: no claim takes the message, and no other producer changes it. If a claim has locked
-- it, this waits, and finds no message that waits. A message of a flow takes no arguments of others, nor does a run
-- that has stored a step or its progress, or has continued as another round. Before a first run, `continued` is the producer's.
SELECT id, task, coalesce(payload::text, 'null'),
       state = 'held' OR progress IS NOT NULL OR (attempt > 0 AND metadata ? 'continued')
           OR EXISTS (SELECT FROM pgqueue_step s WHERE s.message_id = pgqueue_message.id)
FROM pgqueue_message
WHERE channel = %(channel)s AND dedupe_key = %(dedupe_key)s AND state IN ('held', 'scheduled', 'ready')
  AND flow_id IS NULL
LIMIT 1
FOR UPDATE

-- name: give_up_key
-- The message takes no more arguments: the next message gets its key, as after a claim.
UPDATE pgqueue_message SET dedupe_key = NULL WHERE id = %(id)s
