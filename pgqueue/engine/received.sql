-- Remember ids of messages from outside in the table of dedupe keys. No channel is named "", so these ids never equal
-- the dedupe key of a message; message_id 0 is no message.

-- name: remember
SELECT pgqueue_remember_v1(%(ids)s::text[], %(lasting)s::interval)
