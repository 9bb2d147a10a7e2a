-- name: errors
-- The attempts of the message r that have an error. Kept are the first and the last nine.
    SELECT (e ->> 'attempt')::int AS attempt,
           CASE e ->> 'class'
               WHEN 'pgqueue.exceptions.LeaseLost' THEN 'lost'
               WHEN 'pgqueue.exceptions.Discard' THEN 'discarded'
               WHEN 'pgqueue.exceptions.Cancel' THEN 'cancelled'
               ELSE 'failed'
           END AS outcome,
           e ->> 'worker' AS worker_id, (e ->> 'at')::timestamptz AS ended_at,
           e ->> 'class' AS error_class, e ->> 'message' AS error_message, e ->> 'traceback' AS traceback
    FROM jsonb_array_elements(r.errors) e

-- name: attempt_columns
r.id AS message_id, r.channel, r.key, r.task, a.attempt, a.outcome, a.worker_id,
CASE WHEN a.attempt = r.attempt THEN r.started_at END AS started_at, a.ended_at,
a.error_class, a.error_message, a.traceback

-- name: attempts_of_messages
(
    SELECT
-- include: attempt_columns
    FROM {rows} AS r CROSS JOIN LATERAL (
-- include: errors
    ) a
) AS m WHERE true

-- name: attempts_of_history
-- The last attempt has no error where it went well, or was cancelled in time.
(
    SELECT
-- include: attempt_columns
    FROM {rows} AS r CROSS JOIN LATERAL (
-- include: errors
        UNION ALL
        SELECT r.attempt, r.outcome, r.worker_id::text, r.finished_at, NULL, NULL, NULL
        WHERE r.outcome IN ('succeeded', 'cancelled', 'discarded') AND r.started_at IS NOT NULL
          AND NOT EXISTS (SELECT FROM jsonb_array_elements(r.errors) e WHERE (e ->> 'attempt')::int = r.attempt)
    ) a
) AS m WHERE true
