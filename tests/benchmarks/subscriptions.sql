-- name: empty
TRUNCATE pgqueue_event, pgqueue_event_inbox, pgqueue_cursor, pgqueue_group, pgqueue_subscription, pgqueue_webhook, pgqueue_log_floor

-- name: follows
SELECT count(*) > 0 FROM pgqueue_subscription WHERE follows
