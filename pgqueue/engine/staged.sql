-- Rows that tasks of Spark have staged become messages or events, or name the messages of a verb, in the one
-- transaction that commits the write.

-- name: attempt
-- A number for the rows of an attempt of a task. It contains the time, so that rows without a commit can be removed.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint * 4194304 + floor(random() * 4194304)::bigint

-- name: record
-- The statement waits for another commit under the same id. It returns no row unless the version is higher than the
-- last one.
INSERT INTO pgqueue_write AS w (app_id, version, origin, rows, committed_at)
VALUES (%(app_id)s, %(version)s, %(origin)s, %(rows)s, clock_timestamp())
ON CONFLICT (app_id) DO UPDATE
SET version = excluded.version, origin = excluded.origin, rows = excluded.rows, committed_at = excluded.committed_at
WHERE w.version < excluded.version
RETURNING true

-- name: recorded
SELECT version, origin, rows FROM pgqueue_write WHERE app_id = %(app_id)s

-- name: given
-- The message of a row; columns that the row leaves out have the defaults of the write.
SELECT s.attempt, s.number, coalesce(s.channel, %(channel)s) AS channel, coalesce(s.key, '') AS key,
       coalesce(s.task, %(task)s) AS task, coalesce(s.payload, %(payload)s::jsonb) AS payload, s.body,
       coalesce(s.metadata, '{}') AS metadata, coalesce(s.priority, %(priority)s)::smallint AS priority,
       CASE WHEN s.weight > 1 THEN jsonb_build_object('weight', s.weight) END AS options,
       coalesce(s.max_attempts, %(max_attempts)s) AS max_attempts, s.run_at, s.expires_at,
       coalesce(s.ordered, %(ordered)s) AS ordered, s.dedupe_key
FROM pgqueue_staged s

-- name: bounded
-- The channels that may be full.
(SELECT channel FROM pgqueue_policy WHERE max_size IS NOT NULL)

-- name: singular
-- A condition on a row g: it needs a lock, or may conflict with others.
(g.ordered OR g.dedupe_key IS NOT NULL OR g.channel IN
-- include: bounded
)

-- name: look
-- The number of rows, and whether any of them is singular.
SELECT count(*), coalesce(bool_or(
-- include: singular
), false)
FROM (
-- include: given
WHERE s.attempt = ANY (%(attempts)s::bigint[])) g

-- name: locks
-- The locks that are taken before ids: on lanes of ordered messages, and on channels and lanes that may be full.
WITH g AS (
-- include: given
    WHERE s.attempt = ANY (%(attempts)s::bigint[])
)
SELECT 'order', channel, key FROM g WHERE ordered
UNION
SELECT 'room', channel, NULL FROM g WHERE channel IN
-- include: bounded
UNION
SELECT 'room', channel, key FROM g WHERE channel IN (
    SELECT channel FROM pgqueue_policy WHERE max_size IS NOT NULL AND scope IN ('each', 'key'))
LIMIT %(limit)s + 1

-- name: keep_order
-- include: order_kept

-- name: keep_room
-- include: rooms_kept

-- name: enqueue_singular
-- The rows are stored in the order of their dedupe keys, so that two producers of the same keys do not deadlock.
-- Ordered messages have taken their ids in the order of the rows.
WITH rows AS MATERIALIZED (
    SELECT g.*, CASE WHEN g.ordered THEN nextval('pgqueue_message_id_seq') END AS reserved
    FROM (
-- include: given
        WHERE s.attempt = ANY (%(attempts)s::bigint[])
        ORDER BY array_position(%(attempts)s::bigint[], s.attempt), s.number) g
    WHERE
-- include: singular
), stored AS (
    SELECT each.channel, each.key, v.came_of
    FROM (SELECT * FROM rows
          ORDER BY dedupe_key COLLATE "C", array_position(%(attempts)s::bigint[], attempt), number
          OFFSET 0) each
    CROSS JOIN LATERAL pgqueue_enqueue_v1(
        each.channel, each.key, each.task, each.payload, each.body, each.metadata, each.options, each.priority,
        each.max_attempts, each.run_at, NULL, each.expires_at, NULL, NULL, each.ordered, each.dedupe_key, NULL,
        false, NULL, each.reserved, NULL, false) v
)
SELECT came_of, count(*), min(channel), min(key) FROM stored GROUP BY came_of

-- name: enqueue_plain
-- The rows of one attempt, in their order.
WITH changed AS (
    INSERT INTO pgqueue_message
        (channel, key, task, payload, body, metadata, options, priority, max_attempts, run_at, created_at, expires_at,
         state, governed)
    SELECT channel, key, task, payload, body, metadata, options, priority, max_attempts,
           coalesce(run_at, statement_timestamp()), statement_timestamp(), expires_at,
           CASE WHEN run_at > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           channel IN (SELECT channel FROM pgqueue_policy WHERE governs) AND pgqueue_is_governed_v1(channel, key)
    FROM (SELECT * FROM (
-- include: given
          WHERE s.attempt = %(attempt)s) g
          WHERE NOT
-- include: singular
          ORDER BY g.number) sorted
    RETURNING id, channel, key, state, governed, run_at
),
-- include: told
, noticed AS (
    SELECT pgqueue_notice_v1(channel, id, 'created')
    FROM changed
    WHERE channel IN (SELECT name FROM pgqueue_channel WHERE watched)
)
SELECT (SELECT count(*) FROM changed), (SELECT count(*) FROM told), (SELECT count(*) FROM noticed),
       (SELECT pgqueue_tell_promoter_v1(min(run_at)) FROM changed WHERE state = 'scheduled' HAVING count(*) > 0)

-- name: publish
-- The rows of one attempt, in their order.
INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata)
SELECT coalesce(topic, %(topic)s), coalesce(key, ''), payload, coalesce(metadata, '{}')
FROM pgqueue_staged
WHERE attempt = %(attempt)s
ORDER BY number

-- name: count
SELECT count(*) FROM pgqueue_staged WHERE attempt = ANY (%(attempts)s::bigint[])

-- name: ids
-- The ids of the messages that a verb changes.
SELECT DISTINCT message_id FROM pgqueue_staged WHERE attempt = ANY (%(attempts)s::bigint[]) ORDER BY message_id

-- name: remove
DELETE FROM pgqueue_staged WHERE attempt = ANY (%(attempts)s::bigint[])

-- name: forget
-- Delete rows that no write has committed within a week, except rows that a backfill still needs.
DELETE FROM pgqueue_staged WHERE (attempt, number) IN (
    SELECT attempt, number FROM pgqueue_staged WHERE
-- include: is_old
    LIMIT %(limit)s)

-- name: over
SELECT ctid::text, attempt, number FROM pgqueue_staged WHERE
-- include: is_old
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: is_old
attempt < (extract(epoch FROM
-- include: retained_at
      - interval '7 days') * 1000)::bigint * 4194304
AND attempt NOT IN (
    SELECT jsonb_array_elements_text(attempts)::bigint FROM pgqueue_backfill WHERE ended_at IS NULL)
