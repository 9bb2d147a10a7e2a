-- name: is_active
-- What code has declared is active while a worker has it in its code, for five minutes after that.
NOT paused AND (NOT declared OR seen_at > statement_timestamp() - interval '5 minutes')

-- name: has_work
SELECT EXISTS (SELECT FROM pgqueue_subscription),
       EXISTS (
           SELECT FROM pgqueue_subscription s
           WHERE position < b.head AND NOT follows AND
-- include: is_active
       )
       OR b.head > coalesce((SELECT position FROM pgqueue_cursor WHERE "group" = '' AND partition = 0), -1)
FROM (
-- include: bounds
) b

-- name: place
SELECT coalesce((SELECT position FROM pgqueue_cursor WHERE "group" = '' AND partition = 0), b.head), b.head
FROM (
-- include: bounds
) b

-- name: forget_expired
-- Rows that others have locked are left for the next step, here and below: the log waits for nobody.
DELETE FROM pgqueue_subscription
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription WHERE expires_at < statement_timestamp()
    FOR UPDATE SKIP LOCKED))

-- name: lock
SELECT position FROM pgqueue_cursor WHERE "group" = '' AND partition = 0 FOR NO KEY UPDATE

-- name: begin
INSERT INTO pgqueue_cursor ("group", partition, position)
SELECT '', 0, b.head
FROM (
-- include: bounds
) b
ON CONFLICT DO NOTHING

-- name: part
-- Those that were paused, or are no longer in any worker's code, remember where they were.
UPDATE pgqueue_subscription
SET follows = false, position = %(cursor)s
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription
    WHERE follows AND NOT (
-- include: is_active
    )
    FOR NO KEY UPDATE SKIP LOCKED))

-- name: join
UPDATE pgqueue_subscription
SET follows = true
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription
    WHERE NOT follows AND position = %(cursor)s AND
-- include: is_active
    FOR NO KEY UPDATE SKIP LOCKED))

-- name: skip
-- Where nobody follows, there is nothing to match until the next one begins.
UPDATE pgqueue_cursor c
SET position = n.position, updated_at = statement_timestamp()
FROM (
    SELECT least(b.head, (
        SELECT min(s.position) FROM pgqueue_subscription s, pgqueue_cursor own
        WHERE own."group" = '' AND own.partition = 0
          AND NOT s.follows AND NOT s.paused AND s.position > own.position)) AS position
    FROM (
-- include: bounds
    ) b
    WHERE NOT EXISTS (SELECT FROM pgqueue_subscription WHERE follows)
) n
WHERE c."group" = '' AND c.partition = 0 AND n.position > c.position
RETURNING c.position

-- name: lagging
-- The one that is furthest behind. One that begins further ahead waits until the dispatch is there. It is
-- locked: were it paused before it is moved, its messages would be stored once more when it is resumed.
SELECT name, position FROM pgqueue_subscription
WHERE NOT follows AND position < %(cursor)s AND
-- include: is_active
ORDER BY position, name
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED

-- name: upto
-- Up to one after which the next subscription begins, so that it is joined there.
SELECT coalesce(max(stretch.position), greatest(%(after)s, b.floor)), b.head, b.floor
FROM (
-- include: bounds
) b
LEFT JOIN LATERAL (
    SELECT position
    FROM (SELECT position, sum(coalesce(pg_column_size(payload), 0)) OVER (ORDER BY position)
                           - coalesce(pg_column_size(payload), 0) AS before
          FROM pgqueue_event
          WHERE position > %(after)s AND position <= %(after)s::bigint + %(limit)s
            AND position <= coalesce(%(most)s::bigint, (
                SELECT min(position) FROM pgqueue_subscription
                WHERE NOT follows AND NOT paused AND position > %(after)s), b.head)) sized
    WHERE before < %(bytes)s) stretch ON true
GROUP BY b.head, b.floor

-- name: set_up
-- No nested loops over what is held in memory: its size is not known to the planner. A lock is no
-- subscription's fault, and so is waited for less long.
SELECT set_config('statement_timeout', %(patience)s, true), set_config('lock_timeout', %(lock_patience)s, true),
       set_config('enable_nestloop', 'off', true)

-- name: set_back
SET LOCAL enable_nestloop TO DEFAULT

-- name: followers
SELECT name FROM pgqueue_subscription WHERE follows ORDER BY name

-- name: predicates
-- Which there are among the subscriptions of a step.
SELECT DISTINCT predicate FROM pgqueue_subscription
WHERE predicate <> '' AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END
ORDER BY predicate

-- name: to_evaluate
-- The events of a step, and the subscriptions that have a predicate, as JSON.
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')::text FROM pgqueue_event e
        WHERE position > %(after)s AND position <= %(upto)s),
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'name', name, 'params', params, 'is_any', exact = '{}' AND regex = '', 'exact', exact, 'regex', regex,
            'path', path, 'vars', vars)), '[]')::text
        FROM pgqueue_subscription
        WHERE predicate = %(predicate)s
          AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END)

-- name: pause_all
UPDATE pgqueue_subscription
SET paused = true, follows = false, position = %(after)s, error = %(error)s
WHERE predicate = %(predicate)s
  AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END

-- name: match
-- Topics first, each only once however many events have it, and patterns, each only once however many
-- subscriptions have it. Then equalities, by a hash of the values; then what is left of the conditions.
WITH subs AS MATERIALIZED (
    SELECT *, exact = '{}' AND regex = '' AS is_any, predicate = '' AND eq_path = '' AS is_plain
    FROM pgqueue_subscription
    WHERE CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END
), met AS MATERIALIZED (
    -- What the predicates in SQL have found.
    SELECT * FROM unnest(%(met_positions)s::bigint[], %(met_names)s::text[]) AS m (position, name)
), events AS MATERIALIZED (
    SELECT position, topic, key, payload, metadata, created_at
    FROM pgqueue_event
    WHERE position > %(after)s AND position <= %(upto)s
), unconditional AS MATERIALIZED (
    -- By themselves: a plan may look through them again for each event.
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
    SELECT e.position, e.topic, p.eq_path, value
    FROM events e
    CROSS JOIN (SELECT DISTINCT eq_path FROM subs WHERE eq_path <> '') p
    CROSS JOIN LATERAL jsonb_path_query(e.payload, p.eq_path::jsonpath, '{}', true) AS value
), likely AS (
    SELECT * FROM found
    UNION ALL
    -- A Decimal is text in typed events, and tagged in others: it equals a number all the same.
    SELECT position, topic, eq_path, to_jsonb(number::numeric)
    FROM (SELECT position, topic, eq_path,
                 CASE jsonb_typeof(value) WHEN 'string' THEN value #>> '{}' WHEN 'object' THEN value ->> 'value' END AS number
          FROM found) texts
    WHERE number ~ '^-?[0-9]{1,30}(\.[0-9]{1,30})?$'
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
    WHERE s.path = '' OR s.predicate <> '' OR jsonb_path_match(coalesce(e.payload, 'null'), s.path::jsonpath, s.vars, true)
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
        (channel, key, task, payload, metadata, priority, max_attempts, state, ordered, governed)
    SELECT s.channel, g.key, s.task,
           CASE WHEN s.task = '' THEN g.argument
                ELSE jsonb_build_object('args', jsonb_build_array(g.argument), 'kwargs', '{}'::jsonb) END,
           s.metadata || jsonb_build_object('subscription', s.name, 'position', g.first),
           s.priority, s.max_attempts, 'ready', s.ordered,
           s.ordered OR s.channel IN (SELECT channel FROM pgqueue_policy WHERE governs)
                        AND pgqueue_is_governed_v1(s.channel, g.key)
    FROM grouped g JOIN subs s ON s.name = g.name
    -- In the order of the log: ids are given in it, and ordered messages run in theirs.
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

-- name: move
UPDATE pgqueue_cursor SET position = %(upto)s, updated_at = statement_timestamp()
WHERE "group" = '' AND partition = 0

-- name: move_one
UPDATE pgqueue_subscription
SET position = %(upto)s::bigint, follows = %(upto)s::bigint = %(cursor)s::bigint AND NOT paused
WHERE name = %(name)s AND NOT paused

-- name: pause
UPDATE pgqueue_subscription
SET paused = true, follows = false, position = %(after)s, error = %(error)s
WHERE name = %(name)s

-- name: leave
-- They catch up, one by one.
UPDATE pgqueue_subscription SET follows = false, position = %(after)s WHERE name = ANY (%(names)s::text[])

-- name: leave_all
UPDATE pgqueue_subscription SET follows = false, position = %(after)s
WHERE predicate = %(predicate)s
  AND CASE WHEN %(names)s::text[] IS NULL THEN follows ELSE name = ANY (%(names)s::text[]) END

-- name: declare
-- As schedules are: a definition that was replaced comes back only after no worker has declared its
-- replacement for a minute. Which is also how long a worker may be late before one expires.
INSERT INTO pgqueue_subscription AS s
    (name, task, topics, "where", channel, key, ordered, batch, split_by, priority, max_attempts, metadata,
     expires_after, expires_at, exact, regex, eq_path, eq_value, path, vars, key_path, split_path, definition, predicate, params,
     declared, seen_at, position, created_at)
SELECT name, task, ARRAY(SELECT jsonb_array_elements_text(topics::jsonb)), "where"::jsonb, channel, key, ordered,
       batch, split_by, priority, max_attempts, metadata::jsonb, expires_after,
       statement_timestamp() + expires_after + interval '1 minute',
       ARRAY(SELECT jsonb_array_elements_text(exact::jsonb)), regex, eq_path, eq_value::jsonb, path, vars::jsonb,
       key_path, split_path, definition, predicate, params::jsonb, true, statement_timestamp(), coalesce(start, b.head), statement_timestamp()
FROM unnest(%(name)s::text[], %(task)s::text[], %(topics)s::text[], %(where)s::text[], %(channel)s::text[],
            %(key)s::text[], %(ordered)s::boolean[], %(batch)s::int[], %(split_by)s::text[], %(priority)s::smallint[],
            %(max_attempts)s::int[], %(metadata)s::text[], %(expires_after)s::interval[], %(exact)s::text[],
            %(regex)s::text[], %(eq_path)s::text[], %(eq_value)s::text[], %(path)s::text[], %(vars)s::text[],
            %(key_path)s::text[], %(split_path)s::text[], %(definition)s::text[], %(predicate)s::text[], %(params)s::text[],
            %(start)s::bigint[])
    AS d (name, task, topics, "where", channel, key, ordered, batch, split_by, priority, max_attempts, metadata,
          expires_after, exact, regex, eq_path, eq_value, path, vars, key_path, split_path, definition, predicate, params, start),
(
-- include: bounds
) b
ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE
SET task = excluded.task, topics = excluded.topics, "where" = excluded."where", channel = excluded.channel,
    key = excluded.key, ordered = excluded.ordered, batch = excluded.batch, split_by = excluded.split_by,
    priority = excluded.priority, max_attempts = excluded.max_attempts, metadata = excluded.metadata,
    expires_after = excluded.expires_after, expires_at = excluded.expires_at, exact = excluded.exact,
    regex = excluded.regex, eq_path = excluded.eq_path, eq_value = excluded.eq_value, path = excluded.path,
    vars = excluded.vars, predicate = excluded.predicate, params = excluded.params, key_path = excluded.key_path, split_path = excluded.split_path,
    superseded = CASE WHEN s.definition = excluded.definition THEN s.superseded
                      ELSE (ARRAY[s.definition] || array_remove(s.superseded, excluded.definition))[1:20] END,
    definition = excluded.definition, seen_at = excluded.seen_at
WHERE s.declared AND CASE
    WHEN s.definition = excluded.definition THEN s.seen_at < statement_timestamp() - interval '10 seconds'
    ELSE excluded.definition <> ALL (s.superseded) OR s.seen_at < statement_timestamp() - interval '1 minute' END

-- name: known
SELECT name FROM pgqueue_subscription WHERE name = ANY (%(names)s::text[])

-- name: note_gap
-- Of those that follow, or of one.
UPDATE pgqueue_subscription SET error = %(error)s
WHERE CASE WHEN %(name)s::text IS NULL THEN follows ELSE name = %(name)s::text END

-- name: taken
SELECT name FROM pgqueue_subscription WHERE name = ANY (%(names)s::text[]) AND NOT declared ORDER BY name

-- name: forget
DELETE FROM pgqueue_subscription
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription
    WHERE declared AND seen_at < statement_timestamp() - interval '30 days'
    FOR UPDATE SKIP LOCKED))
