-- name: replay
-- A new beginning, but for `attempt`: it is part of the fence and never reset.
WITH chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state = 'dead'
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready', run_at = statement_timestamp(), failures = 0, lost = 0
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, state
),
-- include: told
SELECT id, (SELECT count(*) FROM told) FROM changed

-- name: discard
WITH chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state = 'dead'
    ORDER BY id
    FOR UPDATE
), done AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING *
), kept AS (
    INSERT INTO pgqueue_history (
-- include: history_columns
        , started_at, outcome)
    SELECT
-- include: history_columns
        , started_at, 'discarded'
    FROM done
)
SELECT id FROM done
