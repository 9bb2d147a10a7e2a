-- name: extend
-- Skip locked rows: the order of this statement's locks may differ from a settle's, so waiting could deadlock.
-- A skipped row is not a lost lease: `valid` tells them apart.
WITH still AS MATERIALIZED (
-- include: valid_and_free
)
UPDATE pgqueue_message
SET lease_until = greatest(least(lease_until, statement_timestamp() + lease_for),
                           statement_timestamp() + %(lease)s::interval),
    lease_for = greatest(lease_for, %(lease)s::interval)
WHERE id = ANY (ARRAY(SELECT id FROM still))
RETURNING id, cancel_requested_at IS NOT NULL

-- name: valid_and_free
SELECT found.id
FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[])
    AS h (id, attempt, worker_id)
CROSS JOIN LATERAL (
    SELECT m.id, m.state
    FROM pgqueue_message m
    WHERE m.id = h.id AND m.attempt = h.attempt AND m.worker_id = h.worker_id
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED) found
WHERE found.state = 'running'

-- name: valid
-- "|| ''" keeps the planner from the partial index of running messages, through which it would read all
-- running rows, and the dead entries there, to find a few by their ids.
SELECT m.id, m.cancel_requested_at IS NOT NULL
FROM pgqueue_message m
JOIN unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[])
    AS h (id, attempt, worker_id) USING (id, attempt, worker_id)
WHERE m.id = ANY (%(ids)s::bigint[]) AND m.state || '' = 'running'

-- name: lock
-- An atomic task locks its own row while it runs: heartbeat and rescue skip the row, and under
-- REPEATABLE READ no heartbeat's update makes its settle fail. A row that is locked just now is skipped.
-- include: lock_waiting
SKIP LOCKED

-- name: lock_waiting
SELECT pg_backend_pid(), pg_current_xact_id()::xid::text
FROM pgqueue_message
-- include: still_mine
FOR NO KEY UPDATE

-- name: lock_all
-- As `lock`, for all messages of a batch.
-- include: lock_all_waiting
SKIP LOCKED

-- name: lock_all_waiting
-- The order of the ids keeps two batches from a deadlock.
SELECT id, pg_backend_pid(), pg_current_xact_id()::xid::text
FROM pgqueue_message m
JOIN unnest(%(ids)s::bigint[], %(attempts)s::int[], %(workers)s::uuid[])
    AS h (id, attempt, worker_id) USING (id, attempt, worker_id)
WHERE m.id = ANY (%(ids)s::bigint[]) AND m.state || '' = 'running'
ORDER BY id
FOR NO KEY UPDATE OF m

-- name: let_go
-- The transaction must match, too: behind a pooler another client may use the process now.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE (pid, backend_xid::text) IN (SELECT * FROM unnest(%(pids)s::int[], %(transactions)s::text[]))

-- name: still_mine
-- For "|| ''" see `valid`.
WHERE id = %(id)s AND attempt = %(attempt)s AND worker_id = %(worker_id)s AND state || '' = 'running'

-- name: until_at_least
-- The end never moves to an earlier time, unless the old one was from the future; greatest() and least() ignore NULL.
greatest(least(lease_until, statement_timestamp() + lease_for), statement_timestamp() + %(extend)s::interval),
    lease_for = greatest(lease_for, %(extend)s::interval)

-- name: checkpoint
-- A NULL parameter leaves its column unchanged.
UPDATE pgqueue_message
SET progress = coalesce(%(progress)s::jsonb, progress),
    payload = coalesce(%(payload)s::jsonb, payload),
    body = coalesce(%(body)s::bytea, body),
    max_attempts = least(max_attempts::bigint + %(extra_attempts)s, 2147483647),
    lease_until =
-- include: until_at_least
-- include: still_mine
RETURNING max_attempts

-- name: prolong
UPDATE pgqueue_message
SET lease_until =
-- include: until_at_least
-- include: still_mine
RETURNING id

-- name: begin
-- For a message that has lost a lease before, the begin of its run is stored. If this worker dies, too, messages
-- that it had claimed but not begun are not suspected. Locked rows are skipped.
WITH still AS MATERIALIZED (
-- include: valid_and_free
)
UPDATE pgqueue_message
SET started_at = greatest(statement_timestamp(), claimed_at)
WHERE id = ANY (ARRAY(SELECT id FROM still))
RETURNING id

-- name: are_any_over
SELECT EXISTS (
    SELECT FROM pgqueue_message
    WHERE state = 'running' AND (lease_until < statement_timestamp() OR
-- include: is_from_the_future
    ))

-- name: rescue
-- Messages whose lease was over when this transaction began. A lease that ended since then does not count: an outage
-- may have kept the worker from renewing it. A lease from the future ends one lease after now: its worker may live.
WITH found AS MATERIALIZED (
    SELECT lease_until < transaction_timestamp() AS is_over,
-- include: what_to_know_of_a_loss
    FROM pgqueue_message
    WHERE state = 'running' AND (lease_until < transaction_timestamp() OR
-- include: is_from_the_future
    ) AND
-- include: within
    ORDER BY channel, key  -- uses the index of running messages, and never reads waiting ones
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), bounded AS (
    UPDATE pgqueue_message
    SET lease_until = statement_timestamp() + lease_for
    WHERE id = ANY (ARRAY(SELECT id FROM found WHERE NOT is_over))
), mine AS MATERIALIZED (
    SELECT id, cancel_requested_at, suspected, has_progressed FROM found WHERE is_over
),
-- include: taken_away

-- name: release
-- An operator releases running messages. Their workers are fenced off by the state, and no run is counted. The worker's
-- id stays in the row: an operator has no right to write it, and the next claim overwrites it.
WITH chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state || '' = 'running'
    ORDER BY id
    FOR UPDATE
), freed AS (
    UPDATE pgqueue_message m
    SET state = 'ready',
        governed =
-- include: governed_anew
        ,
        expires_at =
-- include: expires_if_not_begun
        ,
        lease_until = NULL
    WHERE m.id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.state, m.cancel_requested_at IS NOT NULL AS is_asked
), became AS (
    SELECT id, channel, key, governed, flow_id, state AS word, NULL AS fault FROM freed
),
-- include: heard
SELECT id, is_asked, (SELECT count(*) FROM told) FROM freed

-- name: rescue_from
-- Messages of a process that is known to be dead, under any of its ids.
WITH mine AS MATERIALIZED (
    SELECT
-- include: what_to_know_of_a_loss
    FROM pgqueue_message
    WHERE state = 'running' AND worker_id BETWEEN %(first_worker)s::uuid AND %(last_worker)s::uuid AND
-- include: within
    ORDER BY channel, key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
-- include: taken_away

-- name: are_any_of
-- The query also finds locked rows, which `rescue_from` skips.
SELECT EXISTS (
    SELECT FROM pgqueue_message
    WHERE state = 'running' AND worker_id BETWEEN %(first)s::uuid AND %(last)s::uuid)

-- name: give_back
-- Messages that a worker claimed under its earlier ids without knowing of them: the claim's answer was lost with the
-- connection. None of them was begun.
WITH mine AS MATERIALIZED (
    SELECT id, cancel_requested_at, false AS suspected, false AS has_progressed
    FROM pgqueue_message
    WHERE state = 'running' AND worker_id BETWEEN %(first_worker)s::uuid AND %(last_worker)s::uuid
      AND id <> ALL (%(known)s::bigint[]) AND
-- include: within
    ORDER BY channel, key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
-- include: taken_away

-- name: what_to_know_of_a_loss
-- A message that loses its first lease is always suspected of having killed its worker; later ones
-- only if they had begun.
id, cancel_requested_at, lost = 0 OR coalesce(started_at >= claimed_at, false) AS suspected,
-- include: progressed

-- name: progressed
-- The counters of a durable run restart after each finished step.
(SELECT count(*) FROM (
     SELECT FROM pgqueue_step s
     WHERE s.message_id = pgqueue_message.id AND s.attempt = pgqueue_message.attempt AND s.state IN ('done', 'failed')
     LIMIT 1) step) > 0 AS has_progressed

-- name: taken_away
-- After its first lost lease a message is ready at once; after each further one it waits longer, and
-- after `max_lost` it is dead.
charged AS (
    UPDATE pgqueue_message m
    SET state = CASE WHEN counted.lost >= %(max_lost)s - 1 THEN 'dead'
                     WHEN counted.lost = 0 THEN 'ready'
                     ELSE 'scheduled' END,
        run_at = CASE WHEN counted.lost = 0 THEN m.run_at
                      ELSE statement_timestamp() + least(3600, 2 ^ least(counted.lost, 30)) * interval '1 second' END,
        lost = least(counted.lost, 2147483646) + 1,
        failures = CASE WHEN counted.has_progressed THEN 0 ELSE m.failures END,
        errors =
-- include: errors_with_room
                 || jsonb_build_object(
                        'attempt', m.attempt, 'worker', m.worker_id, 'at', statement_timestamp(),
                        'class', 'pgqueue.exceptions.LeaseLost',
                        'message', 'The worker stopped renewing its lease: it died or was cut off.',
                        'traceback', ''),
        governed =
-- include: governed_anew
        ,
        expires_at =
-- include: expires_if_not_begun
        ,
        worker_id = NULL,
        lease_until = NULL
    FROM (
        SELECT mine.id, mine.has_progressed, CASE WHEN mine.has_progressed THEN 0 ELSE p.lost END AS lost
        FROM mine JOIN pgqueue_message p USING (id)) counted
    WHERE m.id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL AND suspected)) AND m.id = counted.id
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.task, m.state
), spared AS (
    UPDATE pgqueue_message m
    SET state = 'ready',
        governed =
-- include: governed_anew
        ,
        expires_at =
-- include: expires_if_not_begun
        ,
        worker_id = NULL,
        lease_until = NULL
    WHERE m.id = ANY (ARRAY(SELECT id FROM mine WHERE cancel_requested_at IS NULL AND NOT suspected))
    RETURNING m.id, m.channel, m.key, m.governed, m.flow_id, m.task, m.state
),
-- include: cancelled_as_asked
, counted AS (
    -- The lost workers no longer count these runs.
    INSERT INTO pgqueue_tally (at, channel, task, succeeded, failed, dead, deferred, discarded, cancelled, waited, ran,
                               waits, runs, lost, released)
    SELECT statement_timestamp(), channel, task, 0, 0, 0, 0, 0, 0, 0, 0,
           array_fill(0::bigint, ARRAY[24]), array_fill(0::bigint, ARRAY[24]), count(*), 0
    FROM (
        SELECT channel, task FROM charged
        UNION ALL
        SELECT channel, task FROM gone WHERE id = ANY (ARRAY(SELECT id FROM mine WHERE suspected))) lost
    GROUP BY channel, task
), became AS (
    SELECT id, channel, key, governed, flow_id, task, state AS word, 'lost' AS fault FROM charged
    UNION ALL
    SELECT id, channel, key, governed, flow_id, task, state, NULL FROM spared
    UNION ALL
    SELECT id, channel, key, governed, flow_id, task, outcome, NULL FROM gone
),
-- include: heard
SELECT id, task, word, (SELECT count(*) FROM told) FROM became
