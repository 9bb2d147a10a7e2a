-- name: number
-- The number of an entry's attempt; NULL: the entry has another form than the queue writes.
CASE WHEN e ->> 'attempt' ~ '^[0-9]{{1,9}}$' THEN (e ->> 'attempt')::int END

-- name: errors
-- The attempts of the message r that have an error. The queue keeps the first and the last nine.
    SELECT
-- include: number
           AS attempt,
           CASE e ->> 'class'
               WHEN 'pgqueue.exceptions.LeaseLost' THEN 'lost'
               WHEN 'pgqueue.exceptions.Discard' THEN 'discarded'
               WHEN 'pgqueue.exceptions.Cancel' THEN 'cancelled'
               ELSE 'failed'
           END AS outcome,
           e ->> 'worker' AS worker_id, pgqueue_instant_of_v1(e ->> 'at') AS ended_at,
           e ->> 'class' AS error_class, e ->> 'message' AS error_message, e ->> 'traceback' AS traceback
    FROM jsonb_array_elements(CASE jsonb_typeof(r.errors) WHEN 'array' THEN r.errors ELSE '[]' END) e

-- name: attempt_columns
r.ctid, r.id AS message_id, r.channel, r.key, r.task, a.attempt, a.outcome, a.worker_id,
CASE WHEN a.attempt = r.attempt THEN r.started_at END AS started_at, a.ended_at,
a.error_class, a.error_message, a.traceback,
CASE WHEN a.error_class IS NOT NULL THEN r.payload END AS payload,
CASE WHEN a.error_class IS NOT NULL THEN r.metadata END AS metadata

-- name: attempts_of_messages
(
    SELECT
-- include: attempt_columns
    FROM {rows} AS r CROSS JOIN LATERAL (
-- include: errors
    ) a
) AS m WHERE true

-- name: attempts_of_history
-- The last attempt has no error if it succeeded, or was cancelled in time.
(
    SELECT r.txid,
-- include: attempt_columns
    FROM {rows} AS r CROSS JOIN LATERAL (
-- include: errors
        UNION ALL
        SELECT r.attempt, r.outcome, r.worker_id::text, r.finished_at, NULL, NULL, NULL
        WHERE r.outcome IN ('succeeded', 'cancelled', 'discarded') AND r.started_at IS NOT NULL
          AND NOT EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(r.errors) WHEN 'array' THEN r.errors ELSE '[]' END) e WHERE r.attempt =
-- include: number
          )
    ) a
) AS m WHERE true

-- name: died_at
-- NULL: the last error has no time.
(SELECT {nearest} FROM pgqueue_instant_of_v1(m.errors -> -1 ->> 'at') died (at) WHERE died.at IS NOT NULL)

-- name: of_flow
-- A column of the flow of the message m.
CASE WHEN m.flow_id IS NOT NULL THEN (SELECT {what} FROM pgqueue_flow f WHERE f.id = m.flow_id) END

-- name: freed
-- The parent of the message m that ended or died last.
CASE WHEN m.flow_id IS NOT NULL THEN (
    SELECT {what}
    FROM pgqueue_dependency d
    CROSS JOIN LATERAL (
        -- A parent ends after m is stored. This condition leaves earlier days out.
        SELECT h.id, h.finished_at AS at
        FROM pgqueue_history h
        WHERE h.id = d.parent_id AND h.finished_at >= m.created_at AND h.finished_at <= {until}
        UNION ALL
        SELECT p.id, died.at
        FROM pgqueue_message p, pgqueue_instant_of_v1(p.errors -> -1 ->> 'at') died (at)
        WHERE p.id = d.parent_id AND p.state || '' = 'dead' AND died.at <= {until}
        LIMIT 1) ended
    WHERE d.flow_id = m.flow_id AND d.child_id = m.id
    ORDER BY ended.at DESC, ended.id DESC
    LIMIT 1) END

-- name: flow_ended_at
-- The time when the queue noted that all messages of the flow of m had ended; NULL: some still live. The live
-- messages are looked up once for all rows, so that a large flow is not searched for each of its messages.
CASE WHEN m.flow_id IS NOT NULL THEN (
    SELECT coalesce(f.ended_at, CASE WHEN f.id NOT IN (
        SELECT l.id FROM pgqueue_flow l
        WHERE l.ended_at IS NULL
          AND (SELECT count(*) FROM (SELECT FROM pgqueue_message p WHERE p.flow_id = l.id LIMIT 1) one) > 0
        ) THEN statement_timestamp() END)
    FROM pgqueue_flow f WHERE f.id = m.flow_id) END

-- name: dependencies
-- The sub-select has the planner keep the order of the rows: a read goes on behind the last one.
(
    SELECT d.*, f.created_at
    FROM {rows} AS d CROSS JOIN LATERAL (SELECT f.created_at FROM pgqueue_flow f WHERE f.id = d.flow_id OFFSET 0) f
) AS m WHERE true

-- name: steps_shown
-- The steps of the message m of a durable task, without their results and the texts of their errors.
CASE WHEN m.steps IS NOT NULL THEN (
    SELECT jsonb_agg(jsonb_build_object(
               'name', s.value -> 'name', 'number', s.value -> 'number', 'kind', s.value -> 'kind', 'state', s.value -> 'state',
               'function', s.value -> 'function', 'tries', s.value -> 'tries', 'started_at', s.value -> 'started_at',
               'finished_at', s.value -> 'finished_at', 'error_class', s.value -> 'error' -> 'class') ORDER BY s.place)
    FROM jsonb_array_elements(m.steps -> 'steps') WITH ORDINALITY s (value, place)) END

-- name: steps_of_history
-- A side value has the time of its message: it is stored without one of its own.
(
    SELECT r.ctid, r.txid, r.id AS message_id, r.channel, r.key, r.task, s.name, s.number, s.kind, s.state,
           coalesce(s.function, '') AS function, coalesce(s.tries, 1) AS tries,
           coalesce(s.started_at, r.finished_at) AS started_at,
           CASE WHEN s.state IN ('done', 'failed') THEN coalesce(s.finished_at, r.finished_at) END AS finished_at,
           s.until, s.error ->> 'class' AS error_class
    FROM {rows} AS r CROSS JOIN LATERAL jsonb_to_recordset(r.steps -> 'steps')
        AS s (name text, number int, kind text, state text, function text, tries int, started_at timestamptz,
              finished_at timestamptz, until timestamptz, error jsonb)
) AS m WHERE true

-- name: steps_of_messages
-- The order of the rows is kept as in `dependencies`.
(
    SELECT s.ctid, s.message_id, q.channel, q.key, q.task, s.name, s.number, s.kind, s.state, s.function, s.tries, s.started_at,
           s.finished_at, s.until, s.error ->> 'class' AS error_class
    FROM {rows} AS s CROSS JOIN LATERAL (
        SELECT q.channel, q.key, q.task FROM pgqueue_message q WHERE q.id = s.message_id OFFSET 0) q
) AS m WHERE true
