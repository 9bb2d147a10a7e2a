-- name: begin
SELECT pgqueue_begin_flow_v1(%(id)s, %(name)s, %(handler_id)s, %(names)s::jsonb)

-- name: add_names
-- Add the names of messages that are added later. It waits for another transaction that adds names to the flow.
UPDATE pgqueue_flow SET names = names || %(names)s::jsonb
WHERE id = %(flow_id)s AND NOT names ?| ARRAY(SELECT jsonb_object_keys(%(names)s::jsonb))

-- name: named
SELECT (names ->> %(name)s)::bigint, ARRAY(SELECT jsonb_object_keys(names)) FROM pgqueue_flow WHERE id = %(flow_id)s

-- name: lock_flow
SELECT FROM pgqueue_flow WHERE id = %(flow_id)s FOR NO KEY UPDATE

-- name: have_handler
UPDATE pgqueue_flow SET handler_id = %(handler_id)s WHERE id = %(flow_id)s

-- name: awaited
-- These flows, and the flows that their messages wait for, directly or not. A message that waits for a flow has the
-- id of the flow as its argument. Any session may have written its row, so the argument may be something else.
WITH RECURSIVE awaited AS (
    SELECT unnest(%(ids)s::bigint[]) AS id
    UNION
    SELECT latch.flow_id
    FROM awaited CROSS JOIN LATERAL (
        SELECT CASE WHEN m.payload -> 'args' ->> 0 ~ '^[0-9]{1,18}$' THEN (m.payload -> 'args' ->> 0)::bigint END AS flow_id
        FROM pgqueue_message m
        WHERE m.flow_id = awaited.id AND m.task = %(latch)s AND (%(also_dead)s OR m.state || '' <> 'dead')) latch
    WHERE latch.flow_id IS NOT NULL
)
SELECT id FROM awaited

-- name: ordered_lanes
-- The ordered lanes of live messages of these flows, and the last id among these messages in each lane.
SELECT channel, key, max(id) FROM pgqueue_message
WHERE flow_id = ANY (%(ids)s::bigint[]) AND ordered AND state || '' <> 'dead'
GROUP BY channel, key

-- name: came_to
-- The name of a flow, whether one of its messages has neither ended nor died, the number of dead messages, and the
-- number of messages that ended without success.
SELECT f.name,
       EXISTS (SELECT FROM pgqueue_message m WHERE m.flow_id = f.id AND m.state || '' <> 'dead'),
       (SELECT count(*) FROM pgqueue_message m WHERE m.flow_id = f.id AND m.state || '' = 'dead'),
       (SELECT count(*) FROM pgqueue_failed_member g WHERE g.flow_id = f.id)
FROM pgqueue_flow f
WHERE f.id = %(flow_id)s

-- name: keep
-- A message of the flow that goes on, other than its handler. It is locked, so that it does not end before this
-- transaction does: until then the handler waits for it, and no duty finds that the flow has ended.
SELECT m.id FROM pgqueue_message m
WHERE m.flow_id = %(flow_id)s AND m.state || '' <> 'dead'
  AND m.id IS DISTINCT FROM (SELECT handler_id FROM pgqueue_flow WHERE id = %(flow_id)s)
ORDER BY m.id DESC
LIMIT 1
FOR SHARE OF m

-- name: ring_kept
-- The router passes by a message that is locked. If it waits, its parent may end meanwhile: the bell is there when the lock
-- is gone.
INSERT INTO pgqueue_bell (channel, ended)
SELECT '', ARRAY[watched_id] FROM pgqueue_blocked WHERE message_id = %(id)s

-- name: goes_on
-- Return whether `keep` can lock a message of the flow, and whether the flow's handler, if any, still waits.
SELECT EXISTS (
           SELECT FROM pgqueue_message m
           WHERE m.flow_id = f.id AND m.state || '' <> 'dead' AND m.id IS DISTINCT FROM f.handler_id),
       f.handler_id IS NULL OR EXISTS (SELECT FROM pgqueue_blocked b WHERE b.message_id = f.handler_id)
FROM pgqueue_flow f
WHERE f.id = %(flow_id)s

-- name: reserve
-- A message that waits walks through its parents upwards, by id. So a parent that is added to a running flow
-- needs a higher id than each parent that its child may watch already. Growth reserves ids within the run, and the
-- sequence caches none.
SELECT pgqueue_reserve_flow_v1()

-- name: children
-- The children of a running message, and the flow's handler if it still waits.
SELECT child_id, false FROM pgqueue_dependency d
WHERE d.parent_id = %(id)s AND child_id IN (SELECT message_id FROM pgqueue_blocked WHERE flow_id = %(flow_id)s)
UNION ALL
SELECT b.message_id, true FROM pgqueue_flow f JOIN pgqueue_blocked b ON b.message_id = f.handler_id
WHERE f.id = %(flow_id)s

-- name: waiting
-- These messages, and the messages that wait for them, directly or not.
WITH RECURSIVE waiting AS (
-- include: all_waiting
)
SELECT id FROM waiting

-- name: blocked_by
SELECT DISTINCT b.message_id
FROM pgqueue_dependency d JOIN pgqueue_blocked b ON b.message_id = d.child_id
WHERE d.parent_id = %(id)s

-- name: lock_circles
SELECT pg_advisory_xact_lock('pgqueue_step'::regclass::oid::bigint)

-- name: in_order
-- The ordered lanes of these messages, and of the messages that wait for them, directly or not. A message waits for its
-- parents, and for the messages before it in an ordered lane, in any state. Only messages of flows lead to other lanes.
-- Each message finds only the next one of its lane: all later ones would cost the square of the lane's length.
WITH RECURSIVE waiting AS (
-- include: all_waiting
)
SELECT m.channel, m.key, min(waiting.id)
FROM waiting CROSS JOIN LATERAL (
    SELECT channel, key, ordered FROM pgqueue_message WHERE id = waiting.id LIMIT 1) m
WHERE m.ordered
GROUP BY m.channel, m.key

-- name: copy_dependencies
COPY pgqueue_dependency (flow_id, child_id, parent_id) FROM STDIN

-- name: block
-- Each child watches the first of its parents; the router moves its watch. The function returns false to a producer's
-- role, which has no right to COPY the dependencies. Only stored messages are blocked: nothing would delete the row of
-- a duplicate, or of a message that a full channel dropped.
SELECT pgqueue_block_v1(%(flow_id)s, %(children)s::bigint[], %(watched)s::bigint[], %(on_failures)s::text[])

-- name: unblock
-- A durable run that goes on before the router has looked keeps the row of its wait.
DELETE FROM pgqueue_blocked WHERE message_id = %(id)s

-- name: produce_waits
SELECT pgqueue_produce_waits_v1(
    %(flow_id)s, %(children)s::bigint[], %(on_failures)s::text[], %(waiting)s::bigint[], %(parents)s::bigint[])

-- name: ring
-- Ring: then the router looks at the children of the given messages.
INSERT INTO pgqueue_bell (channel, ended) VALUES (%(channel)s, %(ids)s::bigint[])

-- name: advance
-- For messages that ended or died: a child that watches one of them goes on to its next parent that has not ended.
-- If it has none, it becomes ready. A child waits for a dead parent, which may be replayed, unless it runs in spite of
-- failures. A child that will never run gets the reason among its errors: `cancel` ends it.
--
-- The statement follows the one that took the bells: an end that it does not see will ring again. It leaves rows that
-- others have locked to the duty. The router marks the governed lanes of the released messages. The limit keeps its
-- transaction short.
WITH ended AS MATERIALIZED (
    -- `ring` also rings for messages that have not ended, and a dead message may have been replayed. Their children
    -- go on waiting, and must not use up the limit.
    SELECT id FROM unnest(%(ended)s::bigint[]) AS rung (id)
    WHERE (SELECT count(*) FROM (
               SELECT FROM pgqueue_message m WHERE m.id = rung.id AND m.state || '' <> 'dead' LIMIT 1) live) = 0
), failed AS MATERIALIZED (
    SELECT message_id AS id, true AS is_gone FROM pgqueue_failed_member WHERE message_id = ANY (%(ended)s::bigint[])
    UNION ALL
    SELECT id, false FROM pgqueue_message WHERE id = ANY (%(ended)s::bigint[]) AND state || '' = 'dead'
), found AS MATERIALIZED (
    SELECT b.message_id AS id, f.id AS because
    FROM failed f
    JOIN pgqueue_dependency d ON d.parent_id = f.id
    JOIN pgqueue_blocked b ON b.message_id = d.child_id
    WHERE (b.on_failure = 'cancel' OR b.on_failure = 'wait' AND f.is_gone)
      AND b.message_id NOT IN (SELECT id FROM ended)
    LIMIT %(limit)s
), hopeless AS MATERIALIZED (
    SELECT id, min(because) AS because FROM found GROUP BY id
), condemned AS MATERIALIZED (
    SELECT m.id, h.because
    FROM hopeless h CROSS JOIN LATERAL (
        SELECT m.id, m.state FROM pgqueue_message m WHERE m.id = h.id LIMIT 1 FOR UPDATE SKIP LOCKED) m
    WHERE m.state = 'held'
), given_up AS (
    UPDATE pgqueue_message m
    SET errors =
-- include: errors_with_room
                 || jsonb_build_object(
                        'attempt', m.attempt, 'worker', NULL, 'at', statement_timestamp(),
                        'class', 'pgqueue.exceptions.ParentFailed',
                        'message', 'Message ' || condemned.because || ', which it waited for, did not succeed.',
                        'traceback', '')
    FROM condemned
    WHERE m.id = condemned.id
    RETURNING m.id
), over AS (
    -- A message that ended while it waited no longer waits.
    DELETE FROM pgqueue_blocked WHERE message_id = ANY (ARRAY(SELECT id FROM ended))
), reached AS MATERIALIZED (
    SELECT message_id, flow_id, watched_id, on_failure
    FROM pgqueue_blocked
    WHERE watched_id = ANY (ARRAY(SELECT id FROM ended))
      AND message_id NOT IN (SELECT id FROM ended)
      AND message_id NOT IN (SELECT id FROM hopeless)
      -- The other children of a dead parent stay where they are, and must not use up the limit.
      AND (on_failure = 'run' OR watched_id NOT IN (SELECT id FROM failed WHERE NOT is_gone))
    LIMIT %(limit)s
), looked AS MATERIALIZED (
    SELECT r.message_id, r.flow_id, r.watched_id, r.on_failure, coalesce(next.parent_id, again.parent_id) AS parent_id
    FROM reached r LEFT JOIN LATERAL (
        -- A comparison of rows: with "parent_id >=" alone, the planner might walk all flows by the index of parents.
        SELECT d.parent_id FROM pgqueue_dependency d
        WHERE (d.flow_id, d.child_id, d.parent_id) >= (r.flow_id, r.message_id, r.watched_id)
          AND (d.flow_id, d.child_id) <= (r.flow_id, r.message_id)
          -- A count: the planner may make a join of EXISTS, which reads all parents first.
          AND (SELECT count(*) FROM (
                   SELECT FROM pgqueue_message m
                   WHERE m.id = d.parent_id AND (r.on_failure <> 'run' OR m.state || '' <> 'dead')
                   LIMIT 1) live) > 0
        ORDER BY d.flow_id, d.child_id, d.parent_id LIMIT 1) next ON true
    LEFT JOIN LATERAL (
        -- A child that runs in spite of failures has passed dead parents, which may have been replayed.
        SELECT d.parent_id FROM pgqueue_dependency d
        WHERE r.on_failure = 'run' AND next.parent_id IS NULL
          AND (d.flow_id, d.child_id) >= (r.flow_id, r.message_id)
          AND (d.flow_id, d.child_id, d.parent_id) < (r.flow_id, r.message_id, r.watched_id)
          AND (SELECT count(*) FROM (
                   SELECT FROM pgqueue_message m WHERE m.id = d.parent_id AND m.state || '' <> 'dead' LIMIT 1) live) > 0
        ORDER BY d.flow_id, d.child_id, d.parent_id LIMIT 1) again ON true
), moved AS (
    UPDATE pgqueue_blocked b SET watched_id = looked.parent_id
    FROM looked
    WHERE b.message_id = looked.message_id AND looked.parent_id <> b.watched_id
    RETURNING b.message_id
), free AS MATERIALIZED (
    SELECT message_id FROM looked
    WHERE parent_id IS NULL
      -- A child that must still be cancelled, since it was locked or beyond the limit, must not run. Its parents are
      -- read only if a message of the flow has failed.
      AND (on_failure = 'run'
           OR (SELECT count(*) FROM (
                   SELECT FROM pgqueue_failed_member f WHERE f.flow_id = looked.flow_id LIMIT 1) of_flow) = 0
           OR (SELECT count(*) FROM (
                   SELECT FROM pgqueue_dependency d
                   WHERE (d.flow_id, d.child_id) = (looked.flow_id, looked.message_id)
                     AND (SELECT count(*) FROM (
                              SELECT FROM pgqueue_failed_member f WHERE f.message_id = d.parent_id LIMIT 1) it) > 0
                   LIMIT 1) of_parents) = 0)
), chosen AS MATERIALIZED (
    SELECT m.id
    FROM free CROSS JOIN LATERAL (
        SELECT m.id, m.state FROM pgqueue_message m
        WHERE m.id = free.message_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) m
    WHERE m.state = 'held'
), changed AS (
    UPDATE pgqueue_message
    SET state = CASE WHEN run_at > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
        -- It waits for a worker from now on. With this time, a claim that goes on behind its mark finds it at once.
        run_at = greatest(run_at, statement_timestamp()),
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, key, state, governed, run_at
), freed AS (
    DELETE FROM pgqueue_blocked WHERE message_id = ANY (ARRAY(SELECT id FROM changed))
), told AS (
    SELECT pgqueue_tell_v1(channel) FROM (SELECT DISTINCT channel FROM changed WHERE state = 'ready') s
), later AS (
    SELECT pgqueue_tell_promoter_v1(min(run_at)) FROM changed WHERE state = 'scheduled' HAVING count(*) > 0
)
SELECT NULL AS given_up, channel, key, governed, (SELECT count(*) FROM told), (SELECT count(*) FROM later) FROM changed
UNION ALL
SELECT id, NULL, NULL, NULL, 0, 0 FROM given_up
UNION ALL
-- A row without values: the limit was reached, so there may be more children. There is no such row where all children
-- are locked.
SELECT NULL, NULL, NULL, NULL, 0, 0
WHERE greatest((SELECT count(*) FROM reached), (SELECT count(*) FROM found)) >= %(limit)s
  AND (EXISTS (SELECT FROM moved) OR EXISTS (SELECT FROM changed) OR EXISTS (SELECT FROM given_up))

-- name: stale
-- Ended or dead parents of messages that still wait for them: these were locked when their parents' bells were routed.
SELECT DISTINCT m.channel, found.parent_id
FROM (
    SELECT b.message_id, b.watched_id AS parent_id
    FROM pgqueue_blocked b
    WHERE NOT EXISTS (
        SELECT FROM pgqueue_message m
        WHERE m.id = b.watched_id AND (b.on_failure <> 'run' OR m.state || '' <> 'dead'))
    UNION ALL
    SELECT b.message_id, f.message_id
    FROM pgqueue_failed_member f
    JOIN pgqueue_dependency d ON d.parent_id = f.message_id
    JOIN pgqueue_blocked b ON b.message_id = d.child_id
    WHERE b.on_failure <> 'run'
    UNION ALL
    SELECT b.message_id, m.id
    FROM pgqueue_message m
    JOIN pgqueue_dependency d ON d.parent_id = m.id
    JOIN pgqueue_blocked b ON b.message_id = d.child_id
    WHERE m.state = 'dead' AND m.flow_id IS NOT NULL AND b.on_failure = 'cancel') found
JOIN pgqueue_message m ON m.id = found.message_id
LIMIT %(limit)s

-- name: end
-- Flows of which no message is left. A flow of a durable run's gather() has one child, the run. The flow goes on until the
-- run has read the results, so that retention keeps them.
WITH over AS MATERIALIZED (
    SELECT f.id FROM pgqueue_flow f
    WHERE f.ended_at IS NULL
      AND (SELECT count(*) FROM (SELECT FROM pgqueue_message m WHERE m.flow_id = f.id LIMIT 1) live) = 0
      AND (SELECT count(*) FROM (
               SELECT FROM pgqueue_step s
               WHERE s.message_id = (SELECT d.child_id FROM pgqueue_dependency d WHERE d.flow_id = f.id LIMIT 1)
                 AND s.state = 'waiting' AND s.result ->> 'flow' = f.id::text LIMIT 1) unread) = 0
      AND
-- include: within
    ORDER BY f.created_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE pgqueue_flow SET ended_at = statement_timestamp() WHERE id = ANY (ARRAY(SELECT id FROM over))

-- name: forget
-- The next flow whose retention is over. A flow is kept while a message of another flow waits for its handler, or is
-- dead because this flow failed: the message reads the state of this flow.
SELECT id FROM pgqueue_flow f
WHERE ended_at <
-- include: retained_at
      - greatest(%(keep)s::interval, (
            SELECT max(greatest(retention, retention_succeeded, retention_cancelled, retention_discarded, retention_expired))
            FROM pgqueue_channel))
  AND id <> ALL (%(aside)s::bigint[])
  AND (SELECT count(*) FROM (
           SELECT FROM pgqueue_dependency d JOIN pgqueue_message latch ON latch.id = d.child_id
           WHERE d.parent_id = f.handler_id LIMIT 1) waits) = 0
ORDER BY ended_at
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: forget_dependencies
DELETE FROM pgqueue_dependency
WHERE (flow_id, child_id, parent_id) IN (
    SELECT flow_id, child_id, parent_id FROM pgqueue_dependency WHERE flow_id = %(flow_id)s LIMIT %(limit)s)

-- name: forget_members
WITH failures AS (
    DELETE FROM pgqueue_failed_member WHERE flow_id = %(flow_id)s
)
DELETE FROM pgqueue_flow WHERE id = %(flow_id)s

-- name: progress
-- The number of messages of each flow by their state or outcome, counted up to a bound (NULL: without a bound).
SELECT f.id, m.word, m.number
FROM unnest(%(ids)s::bigint[]) f (id) CROSS JOIN LATERAL (
    SELECT word, count(*) AS number
    FROM (
        (SELECT
-- include: member_word
         FROM pgqueue_message WHERE flow_id = f.id LIMIT %(bound)s)
        UNION ALL
        (SELECT outcome FROM pgqueue_history WHERE flow_id = f.id LIMIT %(bound)s)) seen
    GROUP BY word) m

-- name: live
-- The ids of live messages of a flow after an id.
SELECT id FROM pgqueue_message m
WHERE flow_id = %(flow_id)s AND id > %(after)s AND (%(state)s::text IS NULL OR state || '' = %(state)s::text)
  AND NOT (%(besides_handler)s AND EXISTS (
               SELECT FROM pgqueue_flow f WHERE f.id = %(flow_id)s AND f.handler_id = m.id))
  AND id <> ALL (%(left_out)s::bigint[])
ORDER BY id LIMIT %(limit)s

-- name: clean_up
-- The messages that wait now, and run even if their parents fail. A message that waits for another flow is not a
-- clean-up.
SELECT b.message_id FROM pgqueue_blocked b
WHERE b.flow_id = %(flow_id)s AND b.on_failure = 'run'
  AND NOT EXISTS (SELECT FROM pgqueue_message m WHERE m.id = b.message_id AND m.task = %(latch)s)

-- name: find
SELECT id, name, handler_id, created_at, ended_at FROM pgqueue_flow WHERE id = %(flow_id)s

-- name: results
-- The results or the errors of parents. They ended after their child was stored, so earlier days of history are not
-- read.
SELECT id, task, outcome, result::text, (errors -> -1)::text FROM pgqueue_history
WHERE id = ANY (%(ids)s::bigint[]) AND finished_at >= %(since)s::timestamptz - interval '1 day'
UNION ALL
SELECT id, task, state, NULL, (errors -> -1)::text FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[])

-- name: origins
-- The metadata of a message's parents, which name their origins.
SELECT waited.id, found.metadata
FROM (
    SELECT parent_id AS id FROM pgqueue_dependency
    WHERE flow_id = %(flow_id)s AND child_id = %(id)s
    ORDER BY parent_id DESC LIMIT %(limit)s) waited
CROSS JOIN LATERAL (
    SELECT metadata::text FROM pgqueue_history WHERE id = waited.id
    UNION ALL
    SELECT metadata::text FROM pgqueue_message WHERE id = waited.id
    LIMIT 1) found
ORDER BY waited.id

-- name: moving
-- The last live message of a flow, if a message of the flow can go on, or a bell waits for the router. NULL: all have
-- ended, or wait for dead messages. The flow of a bell is found by the index of parents: by the index of flows, each
-- bell might read all waits of this flow.
SELECT CASE WHEN EXISTS (
                SELECT FROM pgqueue_message
                WHERE flow_id = %(flow_id)s AND state || '' IN ('ready', 'running', 'scheduled'))
              OR EXISTS (
                SELECT FROM pgqueue_message
                WHERE flow_id = %(flow_id)s AND state || '' = 'held' AND lease_until IS NOT NULL)
              OR EXISTS (
                -- A durable run that waits for a signal, an event or calls goes on when they come.
                SELECT FROM pgqueue_message m
                CROSS JOIN LATERAL (
                    SELECT FROM pgqueue_step s WHERE s.message_id = m.id AND s.state || '' = 'waiting' LIMIT 1) awaited
                WHERE m.flow_id = %(flow_id)s AND m.state || '' = 'held')
              OR EXISTS (
                SELECT FROM pgqueue_bell bell
                CROSS JOIN LATERAL unnest(bell.ended) AS over (id)
                CROSS JOIN LATERAL (
                    SELECT flow_id FROM pgqueue_dependency d WHERE d.parent_id = over.id LIMIT 1) waits
                WHERE waits.flow_id = %(flow_id)s)
              OR EXISTS (
                -- The parent of a latch belongs to another flow, and may have children in several flows.
                SELECT FROM pgqueue_message latch JOIN pgqueue_blocked b ON b.message_id = latch.id
                WHERE latch.flow_id = %(flow_id)s AND latch.state || '' = 'held' AND latch.task = %(latch)s
                  AND NOT EXISTS (
                      SELECT FROM pgqueue_message p WHERE p.id = b.watched_id AND p.state || '' <> 'dead'))
            THEN (SELECT max(id) FROM pgqueue_message WHERE flow_id = %(flow_id)s AND state || '' <> 'dead') END

-- name: all_waiting
    SELECT unnest(%(ids)s::bigint[]) AS id
    UNION
    SELECT next.id
    FROM waiting CROSS JOIN LATERAL (
        SELECT b.message_id AS id
        FROM pgqueue_dependency d JOIN pgqueue_blocked b ON b.message_id = d.child_id
        WHERE d.parent_id = waiting.id
        UNION ALL
        SELECT behind.id
        FROM pgqueue_message m CROSS JOIN LATERAL (
            SELECT o.id FROM pgqueue_message o
            WHERE o.channel = m.channel AND o.key = m.key AND o.ordered
              AND o.state IN ('held', 'scheduled', 'ready', 'running')
              AND o.id > m.id AND o.flow_id IS NOT NULL AND o.state || '' <> 'running'
            ORDER BY o.id LIMIT 1) behind
        WHERE m.id = waiting.id AND m.ordered) next
