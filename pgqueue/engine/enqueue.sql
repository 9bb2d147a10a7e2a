-- Producers only insert: nothing here waits for another transaction, or makes it wait.
-- All messages of one statement are of one task; they differ in payload, and perhaps in key.
-- Payloads come as one JSON array: PostgreSQL parses them once, and its client quotes nothing.

-- name: asked
asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (jsonb_array_elements(%(payloads)s::jsonb),
                    jsonb_array_elements_text(%(keys)s::jsonb),
                    unnest(%(ids)s::bigint[]))
        WITH ORDINALITY AS a (payload, key, reserved, position)
)

-- name: enqueue
-- For what is due at once. Django's connections plan each statement anew, and this one is
-- planned more often than any other: so it has no more parts than it needs.
WITH
-- include: asked
, stored AS (
    INSERT INTO pgqueue_message
        (id, channel, key, task, payload, metadata, options, priority, state, max_attempts)
    SELECT coalesce(reserved, nextval('pgqueue_message_id_seq')),
           %(channel)s::text, coalesce(key, %(key)s::text), %(task)s::text, payload,
           %(metadata)s::jsonb, %(options)s::jsonb, %(priority)s::smallint, 'ready',
           %(max_attempts)s::int
    FROM asked
    ORDER BY position
    RETURNING id, state, run_at, created_at
), told AS (
    -- Notifying takes a lock of the whole cluster at commit: only where somebody idle waits.
    SELECT pg_notify(
-- include: notification_channel
        , %(channel)s::text)
    FROM pgqueue_worker w
    WHERE (%(channel)s::text = ANY (w.channels)
           OR w.channels IS NULL AND %(channel)s::text <> ALL (w.excluded))
      AND w.notify_until > clock_timestamp()
    LIMIT 1
)
SELECT array_agg(id ORDER BY id), min(state), min(run_at), min(created_at),
       (SELECT count(*) FROM told)
FROM stored

-- name: schedule
-- For what is due at a time, which may have passed.
WITH
-- include: asked
, stored AS (
    INSERT INTO pgqueue_message
        (id, channel, key, task, payload, metadata, options, priority, state, run_at, max_attempts)
    SELECT coalesce(reserved, nextval('pgqueue_message_id_seq')),
           %(channel)s::text, coalesce(key, %(key)s::text), %(task)s::text, payload,
           %(metadata)s::jsonb, %(options)s::jsonb, %(priority)s::smallint,
           CASE WHEN run.at > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
           run.at, %(max_attempts)s::int
    FROM asked, (SELECT coalesce(%(run_at)s::timestamptz,
                                 statement_timestamp() + %(run_after)s::interval)) AS run (at)
    ORDER BY position
    RETURNING id, channel, state, run_at, created_at
), changed AS (
    SELECT channel, state FROM stored LIMIT 1
),
-- include: told
, told_promoter AS (
    -- Due earlier than the promoter means to look: tell it. Only if somebody is there.
    SELECT pg_notify(
-- include: notification_channel
        , '')
    FROM (SELECT run_at FROM stored WHERE state = 'scheduled' LIMIT 1) s
    WHERE EXISTS (SELECT FROM pgqueue_duty WHERE name = 'promote' AND due_at > s.run_at)
      AND EXISTS (SELECT FROM pgqueue_worker
                  WHERE last_seen > clock_timestamp() - interval '2 minutes')
)
SELECT array_agg(id ORDER BY id), min(state), min(run_at), min(created_at),
       (SELECT count(*) FROM told) + (SELECT count(*) FROM told_promoter)
FROM stored

-- name: reserve
-- Ids for messages that are inserted later, when a transaction commits.
SELECT array_agg(nextval('pgqueue_message_id_seq')) FROM generate_series(1, %(count)s)
