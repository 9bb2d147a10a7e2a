-- name: channel
SELECT pgqueue_notifications_v1()
