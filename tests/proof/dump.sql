-- name: messages
SELECT id, (payload -> 'args' ->> 0)::bigint AS number, task, channel, key, outcome AS "end", attempt, failures, lost,
       extract(epoch FROM claimed_at)::float8 AS claimed_at, extract(epoch FROM finished_at)::float8 AS finished_at,
       txid::text AS xid
FROM pgqueue_history
WHERE task LIKE 'tests.proof.tasks.%' AND payload -> 'args' ->> 0 IS NOT NULL
UNION ALL
SELECT id, (payload -> 'args' ->> 0)::bigint, task, channel, key, state, attempt, failures, lost,
       extract(epoch FROM claimed_at)::float8, NULL, NULL
FROM pgqueue_message
WHERE task LIKE 'tests.proof.tasks.%' AND payload -> 'args' ->> 0 IS NOT NULL

-- name: effects
SELECT place, what, number, attempt, NULL AS position, NULL AS key, NULL AS once, xid,
       extract(epoch FROM at)::float8 AS at
FROM proof_effect
UNION ALL
SELECT h.id, 'group ' || h."group", h.number, NULL, h.position, e.key, h."group" IN ('atomic', 'batches'), NULL,
       extract(epoch FROM h.handled_at)::float8
FROM chaos_handled h LEFT JOIN pgqueue_event e USING (position)

-- name: events
SELECT position, topic, key, (payload ->> 'number')::bigint AS number FROM pgqueue_event

-- name: leases
SELECT id, (payload -> 'args' ->> 0)::bigint AS number, state, attempt, lease_until, worker_id
FROM pgqueue_message
WHERE state = 'running' OR worker_id IS NOT NULL

-- name: ticks
SELECT id, metadata ->> 'schedule' AS schedule, extract(epoch FROM (metadata ->> 'tick')::timestamptz)::float8 AS tick,
       1.0::float8 AS every
FROM (SELECT id, metadata FROM pgqueue_history WHERE task = 'tests.proof.tasks.ticked'
      UNION ALL
      SELECT id, metadata FROM pgqueue_message WHERE task = 'tests.proof.tasks.ticked') each_of
