-- name: idle
-- It listens before it asks for notices; and it may have been told of what it has not ended yet.
SELECT NOT EXISTS (SELECT FROM pgqueue_message)
   AND EXISTS (SELECT FROM pgqueue_worker WHERE notify_until > clock_timestamp())

-- name: busy
SELECT EXISTS (SELECT FROM pgqueue_worker)
   AND NOT EXISTS (SELECT FROM pgqueue_worker WHERE notify_until > clock_timestamp())
