-- name: channel
SELECT pgqueue_notifications_v1()

-- name: is_watched
SELECT FROM pgqueue_channel WHERE name = %(channel)s AND watched
