-- Producers only insert: nothing here waits for another transaction, or makes it wait.

-- name: enqueue
-- For what is due at once. Django's connections plan each statement anew, and this one is
-- planned more often than any other: so it says no more than it needs.
INSERT INTO pgqueue_message
    (id, channel, key, task, payload, metadata, options, priority, max_attempts, state)
VALUES (coalesce(%(id)s::bigint, nextval('pgqueue_message_id_seq')), %(channel)s, %(key)s, %(task)s,
        %(payload)s, %(metadata)s, %(options)s, %(priority)s, %(max_attempts)s, 'ready')
RETURNING id, state, run_at, created_at, pgqueue_tell_v1(channel)

-- name: schedule
-- For what is due at a time, which may have passed.
INSERT INTO pgqueue_message
    (id, channel, key, task, payload, metadata, options, priority, max_attempts, state, run_at)
SELECT coalesce(%(id)s::bigint, nextval('pgqueue_message_id_seq')),
       %(channel)s::text, %(key)s::text, %(task)s::text, %(payload)s::jsonb, %(metadata)s::jsonb,
       %(options)s::jsonb, %(priority)s::smallint, %(max_attempts)s::int, due.state, due.run_at
FROM (
-- include: due
    ) AS due
RETURNING id, state, run_at, created_at,
-- include: told_of_it

-- name: reserve
-- Ids for messages that are inserted later.
SELECT array_agg(nextval('pgqueue_message_id_seq')) FROM generate_series(1, %(count)s)

-- name: due
SELECT CASE WHEN run_at > statement_timestamp() THEN 'scheduled' ELSE 'ready' END AS state, run_at
FROM (SELECT coalesce(%(run_at)s::timestamptz,
                      statement_timestamp() + coalesce(%(run_after)s::interval, '0')) AS run_at) r

-- name: begun
-- What COPY is to store in each row.
SELECT state, run_at, statement_timestamp() FROM (
-- include: due
    ) AS due

-- name: copy
COPY pgqueue_message
    (id, key, payload, channel, task, metadata, options, priority, max_attempts,
     state, run_at, created_at)
FROM STDIN

-- name: copied
-- For all at once, by what they have in common. Looking at what was stored would make a
-- SERIALIZABLE producer depend on the workers.
SELECT
-- include: told_of_it
FROM (SELECT %(channel)s::text, %(state)s::text, %(run_at)s::timestamptz)
    AS copied (channel, state, run_at)

-- name: told_of_it
CASE state WHEN 'ready' THEN pgqueue_tell_v1(channel) ELSE pgqueue_tell_promoter_v1(run_at) END
