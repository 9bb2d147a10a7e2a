-- name: extend
-- Skips what is locked: beside a settle of the same rows, waiting in another order would
-- deadlock. A row that was skipped is not a lost lease: `held` tells.
WITH beating AS MATERIALIZED (
    SELECT held.id
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[])
        AS h (id, attempt, worker_id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.state
        FROM pgqueue_message m
        WHERE m.id = h.id AND m.attempt = h.attempt AND m.worker_id = h.worker_id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) held
    WHERE held.state = 'running'
)
UPDATE pgqueue_message
SET lease_until = statement_timestamp() + %(lease)s::interval
WHERE id = ANY (ARRAY(SELECT id FROM beating))
RETURNING id, cancel_requested_at IS NOT NULL

-- name: held
SELECT m.id, m.cancel_requested_at IS NOT NULL
FROM pgqueue_message m
JOIN unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[])
    AS h (id, attempt, worker_id) USING (id, attempt, worker_id)
WHERE m.id = ANY (%(ids)s::bigint[]) AND m.state = 'running'

-- name: hold
-- An atomic task locks its own row for as long as it runs: heartbeat and rescue pass over
-- it, and under REPEATABLE READ no heartbeat makes its settle fail.
SELECT id
FROM pgqueue_message
WHERE id = %(id)s AND attempt = %(attempt)s AND worker_id = %(worker_id)s AND state = 'running'
FOR NO KEY UPDATE

-- name: rescue
-- Messages whose worker was silent for a whole lease. A first loss costs no time; a message
-- that keeps losing its workers waits longer each time, and is dead in the end.
WITH mine AS MATERIALIZED (
    SELECT id, cancel_requested_at
    FROM pgqueue_message
    WHERE state = 'running' AND lease_until < statement_timestamp()
    ORDER BY channel, key  -- by the index of what runs, never through all that waits
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), changed AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN m.lost + 1 >= %(max_lost)s THEN 'dead'
                     WHEN m.lost = 0 THEN 'ready'
                     ELSE 'scheduled' END,
        run_at = CASE WHEN m.lost = 0 THEN m.run_at
                      ELSE statement_timestamp() + least(3600, 2 ^ least(m.lost, 30)) * interval '1 second' END,
        lost = m.lost + 1,
        errors =
-- include: errors_with_room
                 || jsonb_build_object(
                        'attempt', m.attempt, 'worker', m.worker_id, 'at', statement_timestamp(),
                        'class', 'pgqueue.exceptions.LeaseLost',
                        'message', 'The worker stopped renewing its lease: it died or was cut off.',
                        'traceback', ''),
        worker_id = NULL,
        lease_until = NULL
    WHERE m.id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL))
    RETURNING m.id, m.channel, m.task, m.state
),
-- include: cancelled_as_asked
,
-- include: told
SELECT id, task, state, (SELECT count(*) FROM told) FROM changed
UNION ALL
SELECT id, task, 'cancelled', 0 FROM cancelled
