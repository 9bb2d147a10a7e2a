-- The figures of an overview beside the counts. Each statement reads a bounded number of rows.

-- name: now
SELECT statement_timestamp()

-- name: running
-- Some running messages of each worker, the longest running first.
WITH running AS MATERIALIZED (
    SELECT id, channel, task, worker_id, claimed_at FROM pgqueue_message WHERE state = 'running' LIMIT %(bound)s
)
SELECT worker_id, id, channel, task, claimed_at
FROM (SELECT *, row_number() OVER (PARTITION BY worker_id ORDER BY claimed_at, id) AS n FROM running) r
WHERE n <= %(each)s

-- name: limited
-- Lanes and channels with messages that a policy keeps from starting, and the policy. The claim that met the limit
-- has marked the lane as saturated or throttled; by a circuit breaker, it is stopped. A channel with a policy for the
-- channel as a whole has a gate. The first channels are found by their gates, since any number of keys may have policies.
(SELECT 'key' AS what, lane.channel, lane.key,
        CASE WHEN
-- include: let_through_by_b
             = 0 THEN 'stopped' ELSE lane.state END, lane.wake_at, p.max_running, p.rate, p.per,
        (SELECT count(*) FROM (SELECT FROM pgqueue_message m
                               WHERE m.state = 'running' AND m.channel = lane.channel AND m.key = lane.key
                               LIMIT %(bound)s) r)
 FROM (SELECT * FROM pgqueue_lane
       WHERE state = 'saturated' OR state = 'throttled' AND wake_at > statement_timestamp()
       LIMIT %(limit)s) lane
 LEFT JOIN LATERAL (
     SELECT * FROM pgqueue_policy p
     WHERE p.channel = lane.channel AND p.scope IN ('each', 'key') AND p.key IN ('', lane.key) AND lane.key <> ''
     ORDER BY p.scope = 'key' DESC LIMIT 1) p ON true
 LEFT JOIN pgqueue_breaker b ON p.breaker_failures IS NOT NULL AND b.channel = lane.channel AND b.key = lane.key)
UNION ALL
(SELECT what, channel, key, state, wake_at, max_running, rate, per, running FROM (
     SELECT 'channel' AS what, p.channel, '' AS key,
            CASE WHEN
-- include: let_through_by_b
                 = 0 THEN 'stopped' WHEN gate.wake_at > statement_timestamp() THEN 'throttled' ELSE 'saturated' END AS state,
            greatest(gate.wake_at, CASE WHEN b.open_until > statement_timestamp() THEN b.open_until END) AS wake_at, p.max_running, p.rate, p.per,
            (SELECT count(*) FROM (SELECT FROM pgqueue_message m
                                   WHERE m.state = 'running' AND m.channel = p.channel
                                   LIMIT %(bound)s) r) AS running
     FROM (SELECT * FROM pgqueue_gate ORDER BY channel LIMIT %(gates)s) gate
     CROSS JOIN LATERAL (
         SELECT * FROM pgqueue_policy p
         WHERE p.channel = gate.channel AND p.scope = 'channel' AND p.key = '' LIMIT 1) p
     LEFT JOIN pgqueue_breaker b ON p.breaker_failures IS NOT NULL AND b.channel = p.channel AND b.key = '') c
 WHERE c.state = 'stopped' OR c.wake_at > statement_timestamp() OR c.max_running <= (
     SELECT sum(weight) FROM (
         SELECT
-- include: weight_of_m
                AS weight
         FROM pgqueue_message m
         WHERE m.state = 'running' AND m.channel = c.channel
         LIMIT %(bound)s) w)
 LIMIT %(limit)s)
ORDER BY 2, 3

-- name: has_more_gates
SELECT EXISTS (SELECT FROM (SELECT channel FROM pgqueue_gate ORDER BY channel OFFSET %(gates)s LIMIT 1) g)

-- name: dead
-- The newest dead letters of each channel, by task and by the class of the last error.
WITH RECURSIVE channels AS (
    (SELECT channel FROM pgqueue_message WHERE state = 'dead' ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT next.channel FROM channels c CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_message WHERE state = 'dead' AND channel > c.channel
        ORDER BY channel LIMIT 1) next
), first_channels AS MATERIALIZED (
    SELECT channel FROM channels LIMIT %(channels)s
), looked_at AS MATERIALIZED (
    SELECT d.*
    FROM first_channels c CROSS JOIN LATERAL (
        SELECT m.id, m.channel, m.task, m.claimed_at, m.errors -> -1 ->> 'class' AS error,
               left(m.errors -> -1 ->> 'message', 200) AS message, pgqueue_instant_of_v1(m.errors -> 0 ->> 'at') AS failed_at,
               m.errors -> 0 ->> 'release' AS first_release, m.errors -> -1 ->> 'release' AS last_release
        FROM pgqueue_message m
        WHERE m.state = 'dead' AND m.claimed_at IS NOT NULL AND m.channel = c.channel
        ORDER BY m.claimed_at DESC
        LIMIT %(each)s) d
)
SELECT channel, task, coalesce(error, ''), (array_agg(message ORDER BY claimed_at DESC))[1], count(*),
       min(coalesce(failed_at, claimed_at)), max(claimed_at), max(id),
       array_agg(first_release ORDER BY coalesce(failed_at, claimed_at))
           || array_agg(last_release ORDER BY claimed_at)
FROM looked_at
GROUP BY channel, task, error
ORDER BY max(claimed_at) DESC
LIMIT %(limit)s

-- name: stopped_flows
-- The flows of a bounded number of dead letters, the first ones by channel and key. The oldest flow comes first.
SELECT f.id, f.name, f.created_at, dead.letters
FROM (
    SELECT flow_id, count(*) AS letters
    FROM (SELECT flow_id FROM pgqueue_message WHERE state = 'dead' ORDER BY channel, key, id LIMIT %(bound)s) looked_at
    WHERE flow_id IS NOT NULL
    GROUP BY flow_id) dead
JOIN pgqueue_flow f ON f.id = dead.flow_id
ORDER BY f.created_at, f.id
LIMIT %(limit)s
