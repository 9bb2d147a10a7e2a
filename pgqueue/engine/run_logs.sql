-- name: store
-- The lines of a run belong to its attempt. A run that has lost its message adds nothing once the next attempt has begun.
-- A durable message has a run for each wait: the lines of the last runs are kept.
WITH given AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(lines)s::text[]) AS g (id, attempt, lines)
), over AS (
    DELETE FROM pgqueue_run_log r
    USING given g
    WHERE r.message_id = g.id AND r.attempt <= g.attempt - %(runs)s
)
INSERT INTO pgqueue_run_log (message_id, attempt, lines)
SELECT g.id, g.attempt, g.lines::jsonb
FROM given g
WHERE EXISTS (SELECT FROM pgqueue_message m WHERE m.id = g.id AND m.attempt = g.attempt)
   OR EXISTS (SELECT FROM pgqueue_history h WHERE h.id = g.id AND h.attempt = g.attempt)
ORDER BY g.id, g.attempt
ON CONFLICT (message_id, attempt) DO UPDATE SET lines = excluded.lines

-- name: load
SELECT attempt, lines::text
FROM pgqueue_run_log
WHERE message_id = %(id)s
ORDER BY attempt

-- name: ends
SELECT min(message_id), max(message_id) FROM pgqueue_run_log

-- name: stretch
-- The last message of the next stretch of the walk; null: the walk is at its end.
SELECT max(message_id), count(*)
FROM (SELECT message_id FROM pgqueue_run_log WHERE message_id > %(after)s ORDER BY message_id LIMIT %(limit)s) s

-- name: forget
-- The lines go after their message, whatever has removed it: a partition that was dropped, a retention, or a purge.
DELETE FROM pgqueue_run_log r
WHERE r.message_id > %(after)s AND r.message_id <= %(upto)s
  AND NOT EXISTS (SELECT FROM pgqueue_message m WHERE m.id = r.message_id)
  AND NOT EXISTS (SELECT FROM pgqueue_history h WHERE h.id = r.message_id)
