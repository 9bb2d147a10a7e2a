-- Ids of messages from outside that are remembered for themselves, not as the dedupe keys of messages. No channel
-- is named "", so these are apart from those; message_id 0 is no message.

-- name: remember
SELECT pgqueue_remember_v1(%(ids)s::text[], %(lasting)s)
