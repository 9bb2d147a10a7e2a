-- name: is_active
-- A declared subscription is active while a worker's code declares it, and for five minutes after that.
NOT paused AND (NOT declared OR seen_at > statement_timestamp() - interval '5 minutes')

-- name: has_work
SELECT EXISTS (SELECT FROM pgqueue_subscription) OR EXISTS (SELECT FROM pgqueue_event_wait),
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
-- Here and below, a step leaves rows that others have locked to the next step: the log must not wait for them.
DELETE FROM pgqueue_subscription
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription WHERE expires_at < statement_timestamp()
    FOR UPDATE SKIP LOCKED))

-- name: lock
SELECT position FROM pgqueue_cursor WHERE "group" = '' AND partition = 0 FOR NO KEY UPDATE

-- name: begin
-- The first wait may be older than the first step.
INSERT INTO pgqueue_cursor ("group", partition, position)
SELECT '', 0, least(b.head, (SELECT min(position) FROM pgqueue_event_wait))
FROM (
-- include: bounds
) b
ON CONFLICT DO NOTHING

-- name: part
-- A subscription that was paused, or that no worker's code declares any more, keeps its position.
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
-- If no subscription follows, go on to the position at which the next one begins, or a wait.
UPDATE pgqueue_cursor c
SET position = n.position, updated_at = statement_timestamp()
FROM (
    SELECT least(b.head, (SELECT min(position) FROM pgqueue_event_wait), (
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
-- The subscription that is furthest behind. One that begins further ahead waits until the dispatch is there. The
-- row is locked: if it were paused before it is moved, its messages would be stored again when it is resumed.
SELECT name, position FROM pgqueue_subscription
WHERE NOT follows AND position < %(cursor)s AND
-- include: is_active
ORDER BY position, name
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED

-- name: upto
-- The last position of the stretch. It ends where the next subscription begins, so that this one can join there.
-- Positions have no gaps. So the events in front of the first position that exists were removed: by retention, with a
-- partition that an operator has detached, or by a DELETE.
SELECT coalesce(max(stretch.position), greatest(%(after)s, b.floor)), b.head, b.floor
FROM (
    SELECT head, greatest(floor, coalesce((
        SELECT position FROM pgqueue_event WHERE position > %(after)s ORDER BY position LIMIT 1) - 1, head)) AS floor
    FROM (
-- include: bounds
    ) bounds
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

-- name: move
UPDATE pgqueue_cursor SET position = %(upto)s, updated_at = statement_timestamp()
WHERE "group" = '' AND partition = 0

-- name: move_one
UPDATE pgqueue_subscription
SET position = %(upto)s::bigint, follows = %(upto)s::bigint = %(cursor)s::bigint AND NOT paused
WHERE name = %(name)s AND NOT paused

-- name: declare
-- Like a schedule, a replaced definition comes back only after no worker has declared its replacement for a
-- minute. A subscription with `expires_after` has a minute more, too, since a worker may declare it late.
INSERT INTO pgqueue_subscription AS s
    (name, task, topics, "where", channel, key, ordered, batch, split_by, priority, weight, max_attempts, metadata,
     expires_after, expires_at, exact, regex, eq_path, eq_value, path, vars, key_path, split_path, definition, predicate, params,
     declared, seen_at, position, created_at)
SELECT name, task, ARRAY(SELECT jsonb_array_elements_text(topics::jsonb)), "where"::jsonb, channel, key, ordered,
       batch, split_by, priority, weight, max_attempts, metadata::jsonb, expires_after,
       statement_timestamp() + expires_after + interval '1 minute',
       ARRAY(SELECT jsonb_array_elements_text(exact::jsonb)), regex, eq_path, eq_value::jsonb, path, vars::jsonb,
       key_path, split_path, definition, predicate, params::jsonb, true, statement_timestamp(), coalesce(start, b.head), statement_timestamp()
FROM unnest(%(name)s::text[], %(task)s::text[], %(topics)s::text[], %(where)s::text[], %(channel)s::text[],
            %(key)s::text[], %(ordered)s::boolean[], %(batch)s::int[], %(split_by)s::text[], %(priority)s::smallint[],
            %(weight)s::smallint[], %(max_attempts)s::int[], %(metadata)s::text[], %(expires_after)s::interval[], %(exact)s::text[],
            %(regex)s::text[], %(eq_path)s::text[], %(eq_value)s::text[], %(path)s::text[], %(vars)s::text[],
            %(key_path)s::text[], %(split_path)s::text[], %(definition)s::text[], %(predicate)s::text[], %(params)s::text[],
            %(start)s::bigint[])
    AS d (name, task, topics, "where", channel, key, ordered, batch, split_by, priority, weight, max_attempts, metadata,
          expires_after, exact, regex, eq_path, eq_value, path, vars, key_path, split_path, definition, predicate, params, start),
(
-- include: bounds
) b
ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE
SET task = excluded.task, topics = excluded.topics, "where" = excluded."where", channel = excluded.channel,
    key = excluded.key, ordered = excluded.ordered, batch = excluded.batch, split_by = excluded.split_by,
    priority = excluded.priority, weight = excluded.weight, max_attempts = excluded.max_attempts, metadata = excluded.metadata,
    expires_after = excluded.expires_after, expires_at = excluded.expires_at, exact = excluded.exact,
    regex = excluded.regex, eq_path = excluded.eq_path, eq_value = excluded.eq_value, path = excluded.path,
    vars = excluded.vars, predicate = excluded.predicate, params = excluded.params, key_path = excluded.key_path, split_path = excluded.split_path,
    superseded = CASE WHEN s.definition = excluded.definition THEN s.superseded
                      ELSE (ARRAY[s.definition] || array_remove(s.superseded, excluded.definition))[1:20] END,
    definition = excluded.definition, seen_at = excluded.seen_at
WHERE s.declared AND CASE
    WHEN s.definition = excluded.definition
        THEN NOT s.seen_at BETWEEN statement_timestamp() - interval '10 seconds' AND statement_timestamp()
    ELSE excluded.definition <> ALL (s.superseded) OR s.seen_at < statement_timestamp() - interval '1 minute' END

-- name: known
SELECT name FROM pgqueue_subscription WHERE name = ANY (%(names)s::text[])

-- name: note_gap
-- Note the error of all subscriptions that follow, or of one subscription.
UPDATE pgqueue_subscription SET error = %(error)s
WHERE CASE WHEN %(name)s::text IS NULL THEN follows ELSE name = %(name)s::text END

-- name: taken
SELECT name FROM pgqueue_subscription WHERE name = ANY (%(names)s::text[]) AND NOT declared ORDER BY name

-- name: forget
DELETE FROM pgqueue_subscription
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_subscription
    WHERE declared AND seen_at <
-- include: retained_at
          - interval '30 days'
    FOR UPDATE SKIP LOCKED))
