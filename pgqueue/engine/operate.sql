-- name: lock_free
SELECT id FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED

-- name: found
SELECT id FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[])
