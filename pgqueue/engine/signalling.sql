-- name: send
SELECT pgqueue_signal_v1(%(id)s, %(name)s, %(payload)s::jsonb, %(dedupe_id)s, %(sender)s)

-- name: task_of
SELECT task FROM pgqueue_signalled_v1(%(id)s, NULL, NULL)

-- name: with_dedupe_key
SELECT id FROM pgqueue_signalled_v1(NULL, %(channel)s, %(dedupe_key)s)
