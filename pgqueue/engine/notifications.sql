-- name: channel
SELECT
-- include: notification_channel
