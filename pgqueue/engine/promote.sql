-- name: promote
WITH due AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE state = 'scheduled' AND run_at <= statement_timestamp() AND
-- include: within
    ORDER BY run_at
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready',
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, channel, key, state, governed
),
-- include: told
SELECT id, (SELECT count(*) FROM told) FROM changed

-- name: next_due
-- Seconds until the next delayed message is due; negative if a due one was skipped as locked.
SELECT extract(epoch FROM run_at - clock_timestamp())::float8
FROM pgqueue_message
WHERE state = 'scheduled'
ORDER BY run_at
LIMIT 1

-- name: may_come
-- Seconds until there may be a message to claim on these channels (NULL: all). It may be a delayed message,
-- a message of a throttled lane or gate, one whose lease runs out, or a ready message that is locked now.
SELECT extract(epoch FROM least(
    (SELECT run_at FROM pgqueue_message
     WHERE state = 'scheduled' AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
     ORDER BY run_at LIMIT 1),
    (SELECT min(lease_until) FROM pgqueue_message
     WHERE state = 'running' AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))),
    (SELECT min(wake_at) FROM pgqueue_lane
     WHERE state = 'throttled' AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))),
    (SELECT min(wake_at) FROM pgqueue_gate
     WHERE %(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[])),
    CASE WHEN EXISTS (
        SELECT FROM pgqueue_message
        WHERE state = 'ready' AND NOT governed
          AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[])))
    THEN clock_timestamp() + interval '100 ms' END) - clock_timestamp())::float8

-- name: run_now
WITH due AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state || '' = 'scheduled'
    ORDER BY id
    FOR NO KEY UPDATE
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready', run_at = statement_timestamp(),
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, channel, key, state, governed
), slept AS (
    -- The sleep of a durable run, or its wait, is over.
    UPDATE pgqueue_step SET until = statement_timestamp()
    WHERE message_id = ANY (ARRAY(SELECT id FROM due)) AND state IN ('waiting', 'retrying')
),
-- include: told
SELECT id, (SELECT count(*) FROM told) FROM changed
