-- name: bounds
-- The newest message; the newest of the channel's waiting messages that has `keep` newer ones; and the time
-- before which messages are too old, by the same clock: from the message that asks for it, or from now on.
SELECT (SELECT id FROM pgqueue_message ORDER BY id DESC LIMIT 1),
       CASE WHEN %(keep)s::bigint IS NOT NULL THEN (
           SELECT id FROM pgqueue_message
           WHERE channel = %(channel)s AND state IN ('held', 'scheduled', 'ready')
           ORDER BY id DESC OFFSET %(keep)s::bigint LIMIT 1) END,
       coalesce((SELECT created_at FROM pgqueue_message WHERE id = %(asking)s), statement_timestamp())
       - %(older_than)s::interval

-- name: discard
-- One step of a walk over the table by id, oldest first. The walk resumes behind the last id, so dead rows do
-- not make it longer. For any statistics of the table, a step reads at most `reach` rows. States are no literals
-- here, so that the planner takes no partial index.
WITH stretch AS MATERIALIZED (
    SELECT id, channel, state, created_at
    FROM pgqueue_message
    WHERE id > %(after)s AND id <= %(newest)s
    ORDER BY id
    LIMIT %(reach)s
), meant AS MATERIALIZED (
    SELECT id FROM stretch
    WHERE channel = %(channel)s AND %(states)s::text[] @> ARRAY[state]
      AND (id <= %(up_to)s OR created_at < %(before)s) AND
-- include: within
    ORDER BY id
    LIMIT %(limit)s
), chosen AS MATERIALIZED (
    SELECT id FROM pgqueue_message
    WHERE id = ANY (ARRAY(SELECT id FROM meant)) AND %(states)s::text[] @> ARRAY[state]
    FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    SELECT * FROM pgqueue_end_v2(ARRAY(SELECT id FROM chosen), 'discarded')
), became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT (SELECT count(*) FROM gone),
       CASE WHEN (SELECT count(*) FROM meant) < %(limit)s THEN (SELECT max(id) FROM stretch)
            ELSE (SELECT max(id) FROM meant) END,
       (SELECT count(*) FROM told)
