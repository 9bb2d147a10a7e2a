-- name: empty
TRUNCATE pgqueue_step, pgqueue_signal, pgqueue_event_wait, pgqueue_event_inbox, pgqueue_event, pgqueue_cursor

-- name: store
WITH stored AS (
    INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts, run_at, attempt)
    SELECT 'default', '', %(task)s, '{"args": []}', %(state)s, 5, statement_timestamp() + %(after)s::interval, 1
    FROM generate_series(1, %(count)s)
    RETURNING id, run_at
)
INSERT INTO pgqueue_step (message_id, started_at, until, number, attempt, tries, name, kind, state, signals)
SELECT id, statement_timestamp(), CASE WHEN %(kind)s = 'sleep' THEN run_at END, 1, 1, 1,
       CASE WHEN %(kind)s = 'sleep' THEN 'sleep' ELSE 'wait:go' END, %(kind)s, 'waiting',
       CASE WHEN %(kind)s = 'sleep' THEN '{}' ELSE '{go}' END::text[]
FROM stored

-- name: fenced
INSERT INTO bench_step
SELECT %(number)s, id, '{}' FROM pgqueue_message
WHERE id = %(id)s AND attempt = 1 AND state = 'running' FOR KEY SHARE

-- name: since_signal
SELECT extract(epoch FROM started_at - (steps #>> '{signals,0,sent_at}')::timestamptz)::float8 * 1000
FROM pgqueue_history WHERE steps IS NOT NULL

-- name: since_event
SELECT extract(epoch FROM h.started_at - e.created_at)::float8 * 1000
FROM pgqueue_history h JOIN pgqueue_event e
    ON e.position = (h.steps #>> '{steps,0,result,payload,position}')::bigint

-- name: forget
TRUNCATE pgqueue_history

-- name: store_beside
INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts)
SELECT %(channel)s, '', 'testproject.shop.tasks.nothing', '{}', 'ready', 5
FROM generate_series(1, %(count)s)

-- name: bare_table
CREATE TABLE bench_step (number int, message_id bigint, result jsonb)

-- name: bare_message
INSERT INTO pgqueue_message (channel, task, state, attempt, max_attempts)
VALUES ('bench', '', 'running', 1, 5)
RETURNING id

-- name: waiting
SELECT count(*) FROM pgqueue_step s JOIN pgqueue_message m ON m.id = s.message_id
WHERE s.kind = %(kind)s AND s.state = 'waiting' AND m.state = 'held'

-- name: idle
-- A worker waits for notices; runs may wait for signals.
SELECT EXISTS (SELECT FROM pgqueue_worker WHERE notify_until > clock_timestamp())
       AND NOT EXISTS (SELECT FROM pgqueue_message WHERE state IN ('ready', 'running'))
