-- name: promote
WITH due AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE state = 'scheduled' AND run_at <= statement_timestamp()
    ORDER BY run_at
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready'
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, channel, state
),
-- include: told
SELECT id, (SELECT count(*) FROM told) FROM changed

-- name: next_due
-- Seconds until the next delayed message is due; negative where one was skipped.
SELECT extract(epoch FROM run_at - clock_timestamp())::float8
FROM pgqueue_message
WHERE state = 'scheduled'
ORDER BY run_at
LIMIT 1

-- name: run_now
WITH due AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state = 'scheduled'
    ORDER BY id
    FOR NO KEY UPDATE
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready', run_at = statement_timestamp()
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, channel, state
),
-- include: told
SELECT id, (SELECT count(*) FROM told) FROM changed
