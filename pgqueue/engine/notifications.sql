-- name: channel
SELECT pgqueue_notifications_v1()

-- name: tell
SELECT count(*) FILTER (WHERE pgqueue_tell_v1(channel)) FROM unnest(%(channels)s::text[]) AS c (channel)
