-- name: take
-- The session that locks the row does the duty; the lock ends with its transaction, even if it dies.
-- A duty that was done in the future is due: the server's clock was set back.
SELECT name FROM pgqueue_duty
WHERE name = %(name)s
  AND (due_at <= statement_timestamp() OR ran_at > statement_timestamp() OR %(early)s)
FOR UPDATE SKIP LOCKED

-- name: done
UPDATE pgqueue_duty
SET ran_at = clock_timestamp(), due_at = clock_timestamp() + %(again_in)s::interval, failing_since = NULL
WHERE name = %(name)s

-- name: failed
-- The row is skipped where another session has locked it: that session does the duty now.
UPDATE pgqueue_duty
SET failing_since = least(failing_since, clock_timestamp())
WHERE name = ANY (ARRAY(SELECT name FROM pgqueue_duty WHERE name = %(name)s FOR NO KEY UPDATE SKIP LOCKED))

-- name: postpone
UPDATE pgqueue_duty
SET due_at = clock_timestamp() + %(by)s::interval
WHERE name = %(name)s

-- name: add
INSERT INTO pgqueue_duty (name, due_at)
SELECT name, statement_timestamp() FROM unnest(%(names)s::text[]) AS n (name)
ORDER BY name
ON CONFLICT DO NOTHING

-- name: due
SELECT name, CASE WHEN ran_at > clock_timestamp() THEN 0
                  ELSE extract(epoch FROM due_at - clock_timestamp()) END::float8
FROM pgqueue_duty
