-- name: load
SELECT
-- include: columns
FROM pgqueue_step
WHERE message_id = %(id)s
ORDER BY number

-- name: load_kept
-- Of a message that is live, or that history keeps.
SELECT name, number, kind, function, state, result::text, error::text, tries, NULL::timestamptz, false
FROM (
-- include: of_any
) s
ORDER BY number

-- name: find
SELECT
-- include: columns
FROM pgqueue_step
WHERE message_id = %(id)s AND name = %(name)s

-- name: columns
name, number, kind, function, state, result::text, error::text, tries, until, coalesce(until <= clock_timestamp(), false), unvisited

-- name: done
-- The steps of a message that are done, live or ended, in their order.
SELECT name, number FROM (
-- include: of_any
) s
WHERE state = 'done'
ORDER BY number

-- name: of_any
-- The steps of a live message, or those that history keeps. The steps that came with the end have no times of their own.
SELECT s.name, s.number, s.kind, s.state, s.function, s.signals, s.result, s.error, s.tries, s.started_at, s.finished_at, s.until,
       s.unvisited
FROM pgqueue_step s
WHERE s.message_id = %(id)s
UNION ALL
SELECT r.name, r.number, r.kind, r.state, coalesce(r.function, ''), r.signals, r.result, r.error, coalesce(r.tries, 1),
       coalesce(r.started_at, h.finished_at), coalesce(r.finished_at, h.finished_at), r.until, coalesce(r.unvisited, false)
FROM pgqueue_history h CROSS JOIN LATERAL jsonb_to_recordset(h.steps -> 'steps')
    AS r (name text, number integer, kind text, state text, function text, signals text[], result jsonb, error jsonb,
          tries integer, started_at timestamptz, finished_at timestamptz, until timestamptz, unvisited boolean)
WHERE h.id = %(id)s AND h.steps IS NOT NULL

-- name: copy
-- With the failed steps before the last one: the code of the message has handled them.
INSERT INTO pgqueue_step
    (message_id, name, number, kind, state, function, signals, result, error, tries, started_at, finished_at, attempt)
SELECT %(to)s, s.name, s.number, s.kind, s.state, s.function, s.signals, s.result, s.error, s.tries, s.started_at, s.finished_at, 0
FROM (
-- include: of_any
) s
WHERE s.state IN ('done', 'failed') AND s.number <= %(upto)s

-- name: again
-- Have a message do a step again that is done or has failed, in a run that begins now. Only while no run is under way. The
-- signal that the step has taken stays taken, so that one with an invalid payload can be replaced by another one. A step
-- that calls a function keeps its number: a fork takes the steps up to a number.
WITH chosen AS MATERIALIZED (
    SELECT m.id, m.state FROM pgqueue_message m
    WHERE m.id = %(id)s AND m.state || '' <> 'running'
      AND (SELECT count(*) FROM pgqueue_step s
           WHERE s.message_id = m.id AND s.name = %(name)s AND s.state IN ('done', 'failed')) > 0
    ORDER BY id
    FOR UPDATE
), gone AS (
    DELETE FROM pgqueue_step
    WHERE message_id = ANY (ARRAY(SELECT id FROM chosen)) AND name = %(name)s AND kind NOT IN ('step', 'atomic')
), anew AS (
    UPDATE pgqueue_step
    SET state = 'retrying', tries = 0, result = NULL, error = NULL, finished_at = NULL, until = statement_timestamp()
    WHERE message_id = ANY (ARRAY(SELECT id FROM chosen)) AND name = %(name)s AND kind IN ('step', 'atomic')
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready', run_at = statement_timestamp(),
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM chosen WHERE state IN ('held', 'scheduled')))
    RETURNING id, channel, key, state, governed
),
-- include: told
SELECT chosen.state, (SELECT count(*) FROM told) FROM chosen

-- name: seen
-- The last steps of a live or ended message, with the beginnings of their results.
SELECT s.name, s.number, s.kind, s.state, s.function, s.signals, left(s.result::text, %(excerpt)s), s.error::text, s.tries,
       s.started_at, s.finished_at, s.until, s.unvisited
FROM (
-- include: of_any
) s
ORDER BY s.number DESC
LIMIT %(limit)s

-- name: signals
-- The last signals to a live or ended message, with the beginnings of their payloads.
SELECT s.id, s.name, s.sent_at, s.dedupe_id, s.sender_id, s.taken_by, left(s.payload, %(excerpt)s)
FROM (
    SELECT s.id, s.name, s.sent_at, s.dedupe_id, s.sender_id, s.taken_by, s.payload::text FROM pgqueue_signal s WHERE s.message_id = %(id)s
    UNION ALL
    SELECT r.id, r.name, r.sent_at, r.dedupe_id, r.sender_id, r.taken_by, r.payload::text
    FROM pgqueue_history h CROSS JOIN LATERAL jsonb_to_recordset(h.steps -> 'signals')
        AS r (id bigint, name text, sent_at timestamptz, dedupe_id text, sender_id bigint, taken_by text, payload jsonb)
    WHERE h.id = %(id)s AND h.steps IS NOT NULL) s
ORDER BY s.id DESC
LIMIT %(limit)s

-- name: signals_out
-- The last signals that the runs of a message have sent to messages which are live.
SELECT s.id, s.message_id, s.name, s.sent_at, s.taken_by
FROM pgqueue_signal s
WHERE s.sender_id = %(id)s
ORDER BY s.id DESC
LIMIT %(limit)s

-- name: waits
-- The waits of durable runs by their tasks. Of each reason, those that have lasted longest are counted, up to a bound. An
-- index has them in this order; the first condition is that index's own.
SELECT m.task, r.reason, count(*), max(extract(epoch FROM clock_timestamp() - s.started_at))::float8
FROM (VALUES ('waiting', 'sleep', 'sleep'), ('waiting', 'signal', 'signal'), ('waiting', 'event', 'event'),
             ('waiting', 'call', 'call'), ('retrying', 'step', 'retry'), ('retrying', 'atomic', 'retry'))
    AS r (state, kind, reason)
CROSS JOIN LATERAL (
    SELECT s.message_id, s.started_at FROM pgqueue_step s
    WHERE s.state IN ('retrying', 'waiting') AND s.state = r.state AND s.kind = r.kind
    ORDER BY s.started_at
    LIMIT %(bound)s) s
CROSS JOIN LATERAL (SELECT task FROM pgqueue_message WHERE id = s.message_id LIMIT 1) m
GROUP BY m.task, r.reason
ORDER BY 4 DESC
LIMIT %(limit)s

-- name: go_on
-- Whether one of the messages has neither ended nor died.
SELECT count(*) > 0 FROM (
    SELECT FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[]) AND state || '' <> 'dead' LIMIT 1) live

-- name: watch
-- The message waits for others again: the router removed the row of its wait when they had ended or died, and one of them
-- was replayed since.
INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
SELECT %(id)s, %(flow_id)s, %(watched_id)s, 'run'
WHERE pgqueue_lock_run_v1(%(id)s, %(attempt)s, %(worker_id)s)
ON CONFLICT (message_id) DO NOTHING

-- name: note_unvisited
UPDATE pgqueue_step SET unvisited = NOT unvisited
WHERE message_id = %(id)s AND name = ANY (%(names)s::text[])
  AND (SELECT pgqueue_lock_run_v1(%(id)s, %(attempt)s, %(worker_id)s))

-- name: store
-- A function, since its plan is kept: Django's connections prepare no statements.
SELECT pgqueue_store_step_v1(
    %(id)s, %(attempt)s, %(worker_id)s, %(name)s, %(number)s, %(kind)s, %(function)s, %(state)s, %(result)s::jsonb,
    %(error)s::jsonb, %(tries)s, %(delay)s::interval, %(until)s::timestamptz, %(took)s::interval, %(given)s::jsonb)

-- name: store_done
-- Store steps of several messages that are done, in one commit, and return the ones that are stored. A step is left out if
-- the lease of its run does not hold, if another transaction has locked the message, or if the step is done already:
-- `store` tells which. So no step waits for the lock of another message.
--
-- The LIMIT keeps the condition on the state out of the lookup of the message: see `mine` in settle.sql.
INSERT INTO pgqueue_step AS s
    (message_id, name, number, kind, function, state, result, tries, attempt, started_at, finished_at)
SELECT message, name, number, kind, function, 'done', result::jsonb, tries, fence,
       statement_timestamp() - took * interval '1 microsecond', statement_timestamp()
FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[], %(names)s::text[], %(numbers)s::int[],
            %(kinds)s::text[], %(functions)s::text[], %(results)s::text[], %(tries)s::int[], %(took)s::bigint[])
    AS e (message, fence, holder, name, number, kind, function, result, tries, took)
CROSS JOIN LATERAL (
    SELECT m.state
    FROM pgqueue_message m
    WHERE m.id = e.message AND m.attempt = e.fence AND m.worker_id = e.holder
    LIMIT 1
    FOR SHARE SKIP LOCKED) locked
WHERE locked.state = 'running'
ON CONFLICT ON CONSTRAINT pgqueue_step_pkey DO UPDATE
SET state = 'done', result = excluded.result, error = NULL, tries = excluded.tries, attempt = excluded.attempt,
    until = NULL, finished_at = excluded.finished_at
WHERE s.state IN ('retrying', 'waiting')
RETURNING s.message_id, s.name

-- name: take_signal
SELECT * FROM pgqueue_take_signal_v1(
    %(id)s, %(attempt)s, %(worker_id)s, %(name)s, %(number)s, %(kind)s, %(names)s::text[], %(given)s::jsonb)
