-- name: empty
TRUNCATE pgqueue_event_inbox, pgqueue_event, pgqueue_append_lock, pgqueue_group, pgqueue_cursor, pgqueue_reader, pgqueue_subscription, pgqueue_webhook;
DELETE FROM pgqueue_log_floor WHERE log = 'event'

-- name: handled
SELECT min(position) FROM pgqueue_cursor WHERE "group" <> ''

-- name: is_read
SELECT EXISTS (SELECT FROM pgqueue_cursor WHERE reader_id IS NOT NULL)

-- name: is_awaited
SELECT EXISTS (SELECT FROM pgqueue_cursor WHERE reader_id IS NOT NULL)
   AND EXISTS (SELECT FROM pgqueue_reader WHERE coalesce(notify_until, feed_until) > clock_timestamp())

-- name: is_fed
SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %(slot)s AND active)

-- name: took
-- From the first event to the last that was handled.
SELECT extract(epoch FROM c.updated_at - e.created_at)::float8
FROM pgqueue_cursor c, (SELECT created_at FROM pgqueue_event ORDER BY position LIMIT 1) e
WHERE c."group" <> ''

-- name: bounds
SELECT coalesce((SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0),
       coalesce((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1), 0)
