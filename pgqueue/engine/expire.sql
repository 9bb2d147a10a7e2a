-- name: expire
-- End messages at the deadline of their hold or at their expires_at, whichever is earlier, but no running ones.
-- All held messages are read: with an index on lease_until, each heartbeat would write to it.
WITH over AS MATERIALIZED (
    SELECT id FROM (
        SELECT id FROM pgqueue_message
        WHERE state = 'held' AND lease_until <= statement_timestamp() AND
-- include: within
        ORDER BY id LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED) held
    UNION
    SELECT id FROM (
        SELECT id FROM pgqueue_message
        WHERE state IN ('held', 'scheduled', 'ready') AND expires_at IS NOT NULL
          AND expires_at <= statement_timestamp() AND
-- include: within
        ORDER BY expires_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED) late
), gone AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM over)) RETURNING *, 'expired' AS outcome
),
-- include: into_history
, became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM gone

-- name: forget
DELETE FROM pgqueue_dedupe
WHERE (channel, dedupe_key) IN (
    SELECT channel, dedupe_key FROM pgqueue_dedupe
    WHERE expires_at <=
-- include: retained_at
    ORDER BY expires_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED)

-- name: over
-- The dedupe keys are not returned, since they may be secret.
SELECT ctid::text, channel FROM pgqueue_dedupe
WHERE expires_at <=
-- include: retained_at
ORDER BY expires_at LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: is_over
-- The duty calls `resume` only if a pause is over: a role from before the function may not call it.
SELECT FROM pgqueue_channel WHERE paused AND paused_until <= statement_timestamp() LIMIT 1

-- name: resume
SELECT pgqueue_work_resume_v1(%(limit)s)

-- name: resume_tasks
DELETE FROM pgqueue_task_pause
WHERE task IN (
    SELECT task FROM pgqueue_task_pause
    WHERE until <= statement_timestamp()
    ORDER BY task LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED)

-- name: tasks_over
SELECT ctid::text, task FROM pgqueue_task_pause
WHERE until <= statement_timestamp()
ORDER BY task LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
