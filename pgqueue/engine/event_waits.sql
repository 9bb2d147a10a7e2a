-- name: add
-- From the log's end on, the dispatch looks for the event. The run itself looks at the events before, after this is
-- committed: so no event is missed, whatever commits meanwhile.
INSERT INTO pgqueue_event_wait (message_id, step, topic, key, path, vars, position)
SELECT %(id)s, %(step)s, %(topic)s, %(key)s, %(path)s, %(vars)s::jsonb, b.head
FROM (
-- include: bounds
) b
ON CONFLICT (message_id, step) DO NOTHING

-- name: remove
DELETE FROM pgqueue_event_wait WHERE message_id = %(id)s AND step = %(step)s

-- name: match
-- Each wait gets the first event of the stretch that meets it, as a signal. One probe of an index for each event finds
-- the waits for its topic and key.
WITH events AS MATERIALIZED (
    SELECT position, topic, key, payload, metadata, created_at
    FROM pgqueue_event
    WHERE position > %(after)s AND position <= %(upto)s
), found AS MATERIALIZED (
    SELECT w.message_id, w.step, e.position
    FROM events e CROSS JOIN LATERAL (
        SELECT message_id, step, path, vars FROM pgqueue_event_wait w
        WHERE w.topic = e.topic AND w.key = e.key AND w.position < e.position
        UNION ALL
        SELECT message_id, step, path, vars FROM pgqueue_event_wait w
        WHERE w.topic = e.topic AND w.key IS NULL AND w.position < e.position) w
    WHERE w.path = '' OR jsonb_path_match(pgqueue_comparable_v1(coalesce(e.payload, 'null')), w.path::jsonpath, w.vars, true)
), first AS MATERIALIZED (
    SELECT message_id, step, min(position) AS position FROM found GROUP BY message_id, step
), gone AS (
    DELETE FROM pgqueue_event_wait w USING first f
    WHERE w.message_id = f.message_id AND w.step = f.step
    RETURNING w.message_id, w.step, f.position
), sent AS (
    INSERT INTO pgqueue_signal (message_id, name, payload)
    SELECT g.message_id, '@' || g.step,
           jsonb_build_object('position', e.position, 'topic', e.topic, 'key', e.key, 'payload', e.payload,
                              'metadata', e.metadata, 'created_at', e.created_at)
    FROM gone g JOIN events e USING (position)
    RETURNING message_id
), rung AS (
    INSERT INTO pgqueue_bell (channel, woken)
    SELECT m.channel, array_agg(m.id)
    FROM sent CROSS JOIN LATERAL (SELECT id, channel FROM pgqueue_message WHERE id = sent.message_id LIMIT 1) m
    GROUP BY m.channel
    RETURNING channel
)
SELECT (SELECT count(*) FROM sent), (SELECT count(pgqueue_tell_v1(channel)) FROM rung)
