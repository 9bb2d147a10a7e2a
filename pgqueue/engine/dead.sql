-- name: replay
-- Counters begin at zero again, except `attempt`: it is part of the fence and is never reset.
WITH chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state || '' = 'dead'
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready', run_at = statement_timestamp(), failures = 0, lost = 0,
        governed =
-- include: governed_anew
        ,
        -- The key was free while this message was dead; another message may have it now.
        dedupe_key = NULL,
        -- The message keeps its id; readers of the history see from this that it was replayed.
        metadata = metadata || jsonb_build_object('replayed_from', id)
                   || CASE WHEN dedupe_key IS NULL THEN '{}' ELSE jsonb_build_object('dedupe_key', dedupe_key) END
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, key, state, governed
),
-- include: told
, noticed AS (
    SELECT pgqueue_notice_v1(channel, id, 'replayed')
    FROM changed
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
)
SELECT id, (SELECT count(*) FROM told), (SELECT count(*) FROM noticed) FROM changed

-- name: discard
WITH chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state || '' = 'dead'
    ORDER BY id
    FOR UPDATE
), gone AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING *, 'discarded' AS outcome
),
-- include: into_history
, became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM gone

-- name: discard_old
-- Finds the oldest of each channel by the index on claimed_at, which is before the time of death.
WITH RECURSIVE channels AS (
    SELECT min(channel) AS channel FROM pgqueue_message WHERE state = 'dead'
    UNION ALL
    SELECT (SELECT min(m.channel) FROM pgqueue_message m WHERE m.state = 'dead' AND m.channel > c.channel)
    FROM channels c WHERE c.channel IS NOT NULL
), limits AS MATERIALIZED (
    SELECT c.channel, statement_timestamp() - coalesce(
        (SELECT dead_retention FROM pgqueue_channel WHERE name = c.channel), %(keep)s::interval) AS before
    FROM channels c WHERE c.channel IS NOT NULL
), chosen AS MATERIALIZED (
    SELECT old.id
    FROM limits CROSS JOIN LATERAL (
        SELECT m.id
        FROM pgqueue_message m
        WHERE m.state = 'dead' AND m.channel = limits.channel AND m.claimed_at < limits.before
          AND coalesce((m.errors -> -1 ->> 'at')::timestamptz, m.claimed_at) < limits.before
        ORDER BY m.claimed_at
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED) old
    LIMIT %(limit)s
), gone AS (
    DELETE FROM pgqueue_message WHERE id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING *, 'discarded' AS outcome
),
-- include: into_history
, became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM gone
