-- name: history_columns
-- What a message takes with it into history, whichever way it ends.
id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
claimed_at, cancel_requested_at, parent_id, created_at

-- name: errors_with_room
-- The first error and the last nine are kept: "- 1" drops the second.
CASE WHEN jsonb_array_length(errors) < 10 THEN errors ELSE errors - 1 END

-- name: idle_worker
-- Follows "FROM … s WHERE": does a worker of s.channel wait to be told?
EXISTS (
    SELECT FROM pgqueue_worker w
    WHERE (s.channel = ANY (w.channels) OR w.channels IS NULL AND s.channel <> ALL (w.excluded))
      AND w.notify_until > clock_timestamp())

-- name: notification_channel
-- Named after the table that this session sees: two queues in one database, each in a
-- schema of its own, never hear each other.
'pgqueue_' || 'pgqueue_message'::regclass::oid

-- name: told
-- Follows "…, changed AS (… RETURNING channel, state)". Notifying takes a lock of the whole
-- cluster at commit, so it is done only where somebody idle waits for it.
told AS (
    SELECT pg_notify(
-- include: notification_channel
        , s.channel)
    FROM (SELECT DISTINCT channel FROM changed WHERE state = 'ready') s
    WHERE
-- include: idle_worker
)

-- name: cancelled_as_asked
-- Follows "mine AS (SELECT id, cancel_requested_at …)": whatever else a run ended with, a
-- message that was to be cancelled ends here. One that succeeded never gets here.
cancelled AS (
    DELETE FROM pgqueue_message
    WHERE id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NOT NULL))
    RETURNING *
), cancelled_history AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome)
    SELECT
-- include: history_columns
        , started_at, 'cancelled'
    FROM cancelled
)
