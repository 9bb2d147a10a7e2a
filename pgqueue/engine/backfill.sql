-- name: record
INSERT INTO pgqueue_backfill (name, task, source, attempts, total, created_at)
VALUES (%(name)s, %(task)s, %(source)s, to_jsonb(%(attempts)s::bigint[]), %(total)s, clock_timestamp())
ON CONFLICT (name) DO NOTHING
RETURNING true

-- name: find
SELECT task, source, done, total, ended_at FROM pgqueue_backfill WHERE name = %(name)s

-- name: lock
-- The attempt and the number of the next row. No attempt: all rows are done.
SELECT (attempts ->> place)::bigint, number FROM pgqueue_backfill
WHERE name = %(name)s AND ended_at IS NULL
FOR UPDATE

-- name: rows
SELECT number, payload::text
FROM pgqueue_staged
WHERE attempt = %(attempt)s AND number >= %(number)s
ORDER BY number
LIMIT %(limit)s

-- name: go_on
UPDATE pgqueue_backfill
SET done = done + %(count)s,
    number = CASE WHEN %(count)s < %(limit)s THEN 0 ELSE %(number)s END,
    place = place + CASE WHEN %(count)s < %(limit)s THEN 1 ELSE 0 END
WHERE name = %(name)s

-- name: end
UPDATE pgqueue_backfill SET ended_at = clock_timestamp() WHERE name = %(name)s

-- name: remove
DELETE FROM pgqueue_staged WHERE attempt = %(attempt)s
