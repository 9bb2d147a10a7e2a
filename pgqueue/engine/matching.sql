-- name: meant
-- The events of a step, without events that were set aside.
position > %(after)s AND position <= %(upto)s AND position <> ALL (%(without)s::bigint[])

-- name: set_up
-- No nested loops over materialized rows: the planner does not know their number. A lock is no subscription's fault,
-- so the statement waits for it less long.
SELECT set_config('statement_timeout', %(patience)s, true), set_config('lock_timeout', %(lock_patience)s, true),
       set_config('enable_nestloop', 'off', true), set_config('jit', 'off', true)

-- name: set_back
SET LOCAL enable_nestloop TO DEFAULT

-- name: exists
SELECT 1 FROM pgqueue_event WHERE position = %(position)s

-- name: followers
SELECT name FROM pgqueue_subscription WHERE follows ORDER BY name

-- name: predicates
-- The predicates of the subscriptions of a step.
SELECT DISTINCT predicate FROM pgqueue_subscription
WHERE predicate <> '' AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END
ORDER BY predicate

-- name: with_predicate
SELECT name FROM pgqueue_subscription
WHERE predicate = %(predicate)s
  AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END
ORDER BY name

-- name: to_evaluate
-- The events of a step, and the subscriptions with a predicate, as JSON. A payload that is compared in another form has
-- this form beside it: the role that evaluates has no right to call pgqueue's functions.
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(e) || jsonb_build_object(
            'comparable', nullif(pgqueue_comparable_v1(payload), payload))), '[]')::text FROM pgqueue_event e
        WHERE
-- include: meant
       ),
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'name', name, 'params', params, 'is_any', exact = '{}' AND regex = '', 'exact', exact, 'regex', regex,
            'path', path, 'vars', vars)), '[]')::text
        FROM pgqueue_subscription
        WHERE predicate = %(predicate)s
          AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END)

-- name: try_events
-- Store a message of each event, as a subscription without conditions would, and a message without an event: if this
-- one fails, too, no event is at fault. All messages are rolled back.
INSERT INTO pgqueue_message (channel, task, payload, state, max_attempts)
SELECT %(channel)s, %(task)s, jsonb_build_object('args', jsonb_build_array(event), 'kwargs', '{}'::jsonb), 'ready', 1
FROM (
    SELECT NULL::jsonb AS event
    UNION ALL
    SELECT to_jsonb(e) FROM pgqueue_event e WHERE
-- include: meant
) tried

-- name: match
-- First topics and patterns, each only once for any number of events and subscriptions. Then equalities, by a hash of
-- the values. Then the other conditions. A new condition goes behind both lookups: before them, each event would be
-- compared with each subscription.
--
-- The messages skip engine/enqueue. So each effect of an insert (governed lanes, bells, notices, idle workers) is here,
-- too, except for max_size and dedupe keys, which such messages do not have.
WITH subs AS MATERIALIZED (
    SELECT *, exact = '{}' AND regex = '' AS is_any, predicate = '' AND eq_path = '' AS is_plain
    FROM pgqueue_subscription
    WHERE CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END
), met AS MATERIALIZED (
    -- The results of the predicates in SQL.
    SELECT * FROM unnest(%(met_positions)s::bigint[], %(met_names)s::text[]) AS m (position, name)
), events AS MATERIALIZED (
    -- Conditions compare a payload in its comparable form, which is made once for all of them.
    SELECT position, topic, key, payload, metadata, created_at,
           CASE WHEN EXISTS (SELECT FROM subs WHERE path <> '')
                THEN pgqueue_comparable_v1(coalesce(payload, 'null')) END AS comparable
    FROM pgqueue_event
    WHERE
-- include: meant
), unconditional AS MATERIALIZED (
    -- In a table of their own: a plan may scan them again for each event.
    SELECT name FROM subs WHERE is_any AND is_plain
), topics AS MATERIALIZED (
    SELECT DISTINCT topic FROM events
), pairs AS MATERIALIZED (
    SELECT topic, s.name, s.is_plain
    FROM (SELECT name, is_plain, unnest(exact) AS topic FROM subs) s
    JOIN topics USING (topic)
    UNION
    -- One pattern after the other: PostgreSQL keeps 32 of them compiled, and compiling takes longer than matching.
    SELECT m.topic, s.name, s.is_plain
    FROM (SELECT m.topic, r.regex
          FROM (SELECT DISTINCT regex FROM subs WHERE regex <> '') r
          CROSS JOIN LATERAL (SELECT topic FROM topics WHERE topic ~ r.regex OFFSET 0) m) m
    JOIN subs s ON s.regex = m.regex
), found AS MATERIALIZED (
    -- A tagged value is compared by its value.
    SELECT e.position, e.topic, p.eq_path,
           CASE WHEN jsonb_typeof(value) = 'object' AND value ? '@' THEN value -> 'value' ELSE value END AS value
    FROM events e
    CROSS JOIN (SELECT DISTINCT eq_path FROM subs WHERE eq_path <> '') p
    CROSS JOIN LATERAL jsonb_path_query(e.comparable, p.eq_path::jsonpath, '{}', true) AS value
), likely AS (
    SELECT * FROM found
    UNION ALL
    -- The text of a number also equals the number.
    SELECT position, topic, eq_path, to_jsonb(pgqueue_number_v1(value #>> '{}'))
    FROM found
    WHERE jsonb_typeof(value) = 'string' AND pgqueue_number_v1(value #>> '{}') IS NOT NULL
), candidates AS MATERIALIZED (
    SELECT DISTINCT v.position, s.name
    FROM likely v
    JOIN subs s ON s.eq_path = v.eq_path AND s.eq_value = v.value
    WHERE s.predicate = '' AND (s.is_any OR (v.topic, s.name) IN (SELECT topic, name FROM pairs))
    UNION ALL
    SELECT e.position, p.name
    FROM events e
    JOIN pairs p ON p.topic = e.topic
    WHERE p.is_plain
    UNION ALL
    SELECT e.position, s.name
    FROM events e CROSS JOIN unconditional s
    UNION ALL
    SELECT position, name FROM met
), paths AS MATERIALIZED (
    -- Each path is parsed once: many subscriptions differ in values alone, and parsing compiles the path's patterns.
    SELECT path, path::jsonpath AS parsed
    FROM (SELECT DISTINCT s.path FROM candidates c JOIN subs s ON s.name = c.name
          WHERE s.path <> '' AND s.predicate = '') p
), matched AS MATERIALIZED (
    SELECT s.name, s.batch, e.position,
           jsonb_build_object('position', e.position, 'topic', e.topic, 'key', e.key, 'payload', e.payload,
                              'metadata', e.metadata, 'created_at', e.created_at) AS event,
           CASE s.key_path WHEN '' THEN s.key WHEN 'key' THEN e.key WHEN 'topic' THEN e.topic
                ELSE coalesce(jsonb_path_query_first(e.payload, s.key_path::jsonpath, '{}', true) #>> '{}', '')
           END AS lane,
           CASE WHEN s.split_path = '' THEN '' WHEN s.split_path = 'key' THEN e.key WHEN s.split_path = 'topic' THEN e.topic
                ELSE coalesce(jsonb_path_query_first(e.payload, s.split_path::jsonpath, '{}', true) #>> '{}', '')
           END AS part
    FROM candidates c
    JOIN subs s ON s.name = c.name
    JOIN events e ON e.position = c.position
    LEFT JOIN paths p ON p.path = s.path AND s.predicate = ''
    WHERE p.path IS NULL OR jsonb_path_match(e.comparable, p.parsed, s.vars, true)
), keyed AS (
    -- A key may have 1000 bytes.
    SELECT name, batch, position, event, part,
           (CASE WHEN octet_length(lane) <= 1000 THEN lane ELSE md5(lane) END) COLLATE "C" AS key
    FROM matched
), grouped AS (
    SELECT name, key, position AS first, event AS argument FROM keyed WHERE batch IS NULL
    UNION ALL
    SELECT name, key, min(position), jsonb_agg(event ORDER BY position)
    FROM (SELECT *, (row_number() OVER (PARTITION BY name, key, part ORDER BY position) - 1) / batch AS number
          FROM keyed WHERE batch IS NOT NULL) numbered
    GROUP BY name, key, part, number
), stored AS (
    INSERT INTO pgqueue_message
        (channel, key, task, payload, metadata, options, priority, max_attempts, state, ordered, governed)
    SELECT s.channel, g.key, s.task,
           CASE WHEN s.task = '' THEN g.argument
                ELSE jsonb_build_object('args', jsonb_build_array(g.argument), 'kwargs', '{}'::jsonb) END,
           s.metadata || jsonb_build_object('subscription', s.name, 'position', g.first),
           CASE WHEN s.weight > 1 THEN jsonb_build_object('weight', s.weight) END, s.priority, s.max_attempts, 'ready', s.ordered,
           s.ordered OR s.channel IN (SELECT channel FROM pgqueue_policy WHERE governs)
                        AND pgqueue_is_governed_v1(s.channel, g.key)
    FROM grouped g JOIN subs s ON s.name = g.name
    -- In the order of the log: ids are given in this order, and ordered messages run by their ids.
    ORDER BY g.first, g.name
    RETURNING id, channel, key, governed
), rung AS (
    INSERT INTO pgqueue_bell (channel, key) SELECT DISTINCT channel, key FROM stored WHERE governed
    RETURNING key
), noticed AS (
    SELECT pgqueue_notice_v1(channel, id, 'created')
    FROM stored WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
), told AS (
    SELECT pgqueue_tell_v1(channel) FROM (SELECT DISTINCT channel FROM stored) c
)
SELECT (SELECT count(*) FROM stored), (SELECT count(*) FROM rung), (SELECT count(*) FROM noticed),
       (SELECT count(*) FROM told)

-- name: pause
UPDATE pgqueue_subscription
SET paused = true, follows = false, position = %(after)s, error = %(error)s
WHERE name = %(name)s

-- name: leave
-- The subscriptions catch up later, one by one.
UPDATE pgqueue_subscription SET follows = false, position = %(after)s WHERE name = ANY (%(names)s::text[])

-- name: leave_all
UPDATE pgqueue_subscription SET follows = false, position = %(after)s
WHERE predicate = %(predicate)s AND follows
