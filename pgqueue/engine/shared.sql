-- name: history_columns
-- What a message takes with it into history, whichever way it ends.
id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
claimed_at, cancel_requested_at, parent_id, created_at

-- name: errors_with_room
-- The first error and the last nine are kept: "- 1" drops the second.
CASE WHEN jsonb_array_length(errors) < 10 THEN errors ELSE errors - 1 END

-- name: told
-- Follows "…, changed AS (… RETURNING channel, state)".
told AS (
    SELECT pgqueue_tell_v1(channel)
    FROM (SELECT DISTINCT channel FROM changed WHERE state = 'ready') s
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
