-- name: replay
-- Counters begin at zero again, except `attempt`: it is part of the fence and is never reset. A dead letter that only
-- passed on the failure of a parent comes back with that parent, and waits for it again. A durable run that died of a
-- member of its gather() stays dead: it has stored the failure.
WITH RECURSIVE wanted (id) AS (
    SELECT unnest(%(ids)s::bigint[])
    UNION
    SELECT child.id
    FROM wanted JOIN pgqueue_dependency d ON d.parent_id = wanted.id
    CROSS JOIN LATERAL (
        SELECT m.id FROM pgqueue_message m
        WHERE m.id = d.child_id AND m.flow_id = d.flow_id AND m.state || '' = 'dead' AND m.errors -> -1 ? 'parent'
        LIMIT 1) child
), chosen AS MATERIALIZED (
    SELECT id, flow_id, errors -> -1 ? 'parent' AS follows
    FROM pgqueue_message
    WHERE id = ANY (ARRAY(SELECT id FROM wanted)) AND state || '' = 'dead'
    ORDER BY id
    FOR UPDATE
), waiting AS MATERIALIZED (
    SELECT c.id, c.flow_id, min(d.parent_id) AS watched_id
    FROM chosen c JOIN pgqueue_dependency d ON d.flow_id = c.flow_id AND d.child_id = c.id
    WHERE c.follows
      AND (d.parent_id = ANY (ARRAY(SELECT id FROM chosen))
           OR (SELECT count(*) FROM (
                   SELECT FROM pgqueue_message m WHERE m.id = d.parent_id AND m.state || '' <> 'dead' LIMIT 1) live) > 0)
    GROUP BY c.id, c.flow_id
), changed AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN id = ANY (ARRAY(SELECT id FROM waiting)) THEN 'held' ELSE 'ready' END,
        run_at = statement_timestamp(), failures = 0, lost = 0,
        expires_at =
-- include: expires_if_not_begun
        ,
        governed =
-- include: governed_anew
        ,
        -- The key was free while this message was dead; another message may have it now.
        dedupe_key = NULL,
        -- The message keeps its id; readers of the history see from this that it was replayed.
        metadata =
-- include: not_handed_back
                   || jsonb_build_object('replayed_from', id)
                   || CASE WHEN dedupe_key IS NULL THEN '{}' ELSE jsonb_build_object('dedupe_key', dedupe_key) END
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, key, state, governed
), tried_again AS (
    -- A durable run that died of a failed step tries this step again. Failures before it, which its code has handled, stay.
    -- They stay also if an operator has this step done again: `again` has made it a step without a try.
    DELETE FROM pgqueue_step s
    USING (
        SELECT DISTINCT ON (s.message_id) s.message_id, s.name, s.state
        FROM pgqueue_step s CROSS JOIN LATERAL (
            SELECT m.errors FROM pgqueue_message m WHERE m.id = s.message_id LIMIT 1) m
        WHERE s.message_id = ANY (ARRAY(SELECT id FROM chosen))
          AND (s.state = 'failed' OR s.state = 'retrying' AND s.tries = 0)
          AND m.errors -> -1 ->> 'class' = 'pgqueue.exceptions.StepFailed'
        ORDER BY s.message_id, s.number DESC) last
    WHERE s.message_id = last.message_id AND s.name = last.name AND last.state = 'failed'
), blocked AS (
    INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
    SELECT id, flow_id, watched_id, 'run' FROM waiting
    RETURNING message_id
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
), gone AS MATERIALIZED (
    SELECT * FROM pgqueue_end_v2(ARRAY(SELECT id FROM chosen), 'discarded')
), became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM gone

-- name: discard_old
-- Find the oldest dead letters of each channel by the index on claimed_at, which is before the time of death.
WITH RECURSIVE channels AS (
    SELECT min(channel) AS channel FROM pgqueue_message WHERE state = 'dead'
    UNION ALL
    SELECT (SELECT min(m.channel) FROM pgqueue_message m WHERE m.state = 'dead' AND m.channel > c.channel)
    FROM channels c WHERE c.channel IS NOT NULL
), limits AS MATERIALIZED (
    SELECT c.channel,
-- include: retained_at
        - coalesce(
        (SELECT dead_retention FROM pgqueue_channel WHERE name = c.channel), %(keep)s::interval) AS before
    FROM channels c WHERE c.channel IS NOT NULL
), chosen AS MATERIALIZED (
    SELECT old.id
    FROM limits CROSS JOIN LATERAL (
        SELECT m.id
        FROM pgqueue_message m
        WHERE m.state = 'dead' AND m.channel = limits.channel AND m.claimed_at < limits.before
          AND coalesce(pgqueue_instant_of_v1(m.errors -> -1 ->> 'at'), m.claimed_at) < limits.before AND
-- include: within
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
