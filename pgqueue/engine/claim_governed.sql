-- name: gate
-- Lock the gate of a channel that has a policy for the whole channel. The first value: whether there is such a policy. The
-- second one: whether the gate is locked. If not, another worker has it locked, or the gate does not exist yet. The third
-- one: whether messages of the channel may be urgent.
SELECT p.channel IS NOT NULL, gate.channel IS NOT NULL,
       EXISTS (SELECT FROM pgqueue_channel
               WHERE name = %(channel)s AND
-- include: has_urgent
               )
FROM (SELECT) even_so
LEFT JOIN pgqueue_policy p ON p.channel = %(channel)s AND p.scope = 'channel' AND p.governs
LEFT JOIN LATERAL (
    SELECT g.channel FROM pgqueue_gate g
    WHERE g.channel = p.channel
    FOR NO KEY UPDATE SKIP LOCKED) gate ON true

-- name: charge_none
-- Change the gate to its own values: this raises the error that a charge of the gate would raise.
UPDATE pgqueue_gate SET tat = tat, wake_at = wake_at WHERE channel = ANY (%(channels)s::text[])

-- name: tokens
-- How many starts a rate allows now, by the generic cell rate algorithm (ITU-T I.371). `tat` is the
-- theoretical arrival time of the next start; `gap` is the time between two starts.
CASE WHEN gap IS NULL THEN 1000000
     ELSE greatest(0, 1 + floor(extract(epoch FROM now + (burst - 1) * gap - greatest(tat, now))
                                / extract(epoch FROM gap))) END::int

-- name: rate_of_p
p.per / p.rate AS gap, coalesce(p.burst, greatest(1, ceil(p.rate / extract(epoch FROM p.per) / 10)))::int AS burst

-- name: room
-- How many messages the channel's policy allows to start, the limits by which a claim weighs messages, and whether the
-- message that starts is the probe of the channel's breaker. The gate was locked in an earlier statement.
SELECT least(%(limit)s, places, tokens, let_through), places, tokens, max_running, burst, let_through = 1
FROM (
    SELECT CASE WHEN max_running IS NOT NULL THEN greatest(0, max_running - running) END::int AS places,
           max_running, burst,
-- include: tokens
           AS tokens, let_through
    FROM (
        SELECT p.max_running, g.tat, statement_timestamp() AS now,
-- include: rate_of_p
            , CASE WHEN p.max_running IS NULL THEN 0 ELSE (
                SELECT coalesce(sum(weight), 0) FROM (
                    SELECT
-- include: weight_of_m
                           AS weight
                    FROM pgqueue_message m
                    WHERE m.state = 'running' AND m.channel = p.channel LIMIT p.max_running) r) END AS running,
-- include: let_through_by_b
            AS let_through
        FROM pgqueue_policy p JOIN pgqueue_gate g USING (channel)
        LEFT JOIN pgqueue_breaker b ON p.breaker_failures IS NOT NULL AND b.channel = p.channel AND b.key = ''
        WHERE p.channel = %(channel)s AND p.scope = 'channel') gated) open

-- name: charge
-- Count the started messages against the channel's rate. If it does not allow the next one, store when it does: one of
-- weight `next`.
UPDATE pgqueue_gate g
SET tat = charged.tat,
    wake_at = CASE WHEN charged.tat - (burst - next) * gap > now THEN charged.tat - (burst - next) * gap END,
    heaviest = CASE WHEN %(started)s = 0 THEN g.heaviest ELSE %(heaviest)s END
FROM (
    SELECT gate.channel,
           greatest(gate.tat, now) + least(%(started)s * gap,
-- include: longest_debt
           ) AS tat, burst, gap, now, least(%(next)s, burst) AS next
    FROM (SELECT channel, tat, statement_timestamp() AS now FROM pgqueue_gate WHERE channel = %(channel)s) gate
    JOIN (SELECT p.channel,
-- include: rate_of_p
          FROM pgqueue_policy p WHERE p.scope = 'channel' AND p.rate IS NOT NULL) p USING (channel)) charged
WHERE g.channel = charged.channel

-- name: probe
-- Store the probes of half-open breakers: messages that this transaction has claimed. A breaker that another transaction
-- writes is skipped: a failure that is settled in a long transaction must not stop this worker.
WITH half_open AS MATERIALIZED (
    SELECT b.key, c.id, c.attempt
    FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(keys)s::text[]) AS c (id, attempt, key)
    JOIN pgqueue_breaker b
        ON b.channel = %(channel)s AND b.open_until IS NOT NULL
        AND (b.key = c.key AND c.key <> '' OR b.key = '' AND %(is_of_channel)s)
    ORDER BY b.key
    FOR NO KEY UPDATE OF b SKIP LOCKED
)
UPDATE pgqueue_breaker b SET probe_id = h.id, probe_attempt = h.attempt
FROM half_open h
WHERE b.channel = %(channel)s AND b.key = h.key

-- name: locked_breakers
-- Return the keys whose breakers another transaction writes.
WITH free AS MATERIALIZED (
    SELECT key FROM pgqueue_breaker
    WHERE channel = %(channel)s AND key = ANY (%(keys)s::text[])
    ORDER BY key
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT key FROM pgqueue_breaker
WHERE channel = %(channel)s AND key = ANY (%(keys)s::text[]) AND key <> '' AND key NOT IN (SELECT key FROM free)

-- name: longest_debt
-- A heavy message may owe a slow rate more time than a timestamp has room for.
interval '36525 days'

-- name: whose_turn_it_is
channel = %(channel)s AND state = 'runnable' AND key <> ALL (%(aside)s::text[]) AND turn_at >= %(after)s
AND (%(until)s::timestamptz IS NULL OR turn_at < %(until)s::timestamptz)

-- name: lanes
-- Lock the runnable lanes whose turn it is. Their messages are read in the next statement: until the lock,
-- another worker may have saturated them. A pause applies from its commit on, although its bell may
-- not be routed yet.
SELECT key, turn_at, statement_timestamp()
FROM pgqueue_lane
WHERE
-- include: whose_turn_it_is
  AND NOT EXISTS (SELECT FROM pgqueue_channel WHERE name = %(channel)s AND
-- include: is_paused
      )
ORDER BY turn_at
LIMIT %(lanes)s
FOR NO KEY UPDATE SKIP LOCKED

-- name: urgent_lanes
-- Lock runnable lanes with urgent messages, the longest urgent first, whatever their turns are. See `lanes`.
SELECT key, turn_at, statement_timestamp()
FROM pgqueue_lane
WHERE channel = %(channel)s AND state = 'runnable' AND urgent_at IS NOT NULL AND urgent_at <= statement_timestamp()
  AND key <> ALL (%(aside)s::text[])
  AND NOT EXISTS (SELECT FROM pgqueue_channel WHERE name = %(channel)s AND
-- include: is_paused
      )
ORDER BY urgent_at
LIMIT %(lanes)s
FOR NO KEY UPDATE SKIP LOCKED

-- name: mark_urgent
-- include: urgency_marked

-- name: put_urgency_off
-- A lane whose urgent messages wait with their task makes room for other lanes. A claim of few messages looks only at
-- the lanes that have been urgent for longest.
UPDATE pgqueue_lane
SET urgent_at = statement_timestamp() + interval '1 second'
WHERE channel = %(channel)s AND key = ANY (%(keys)s::text[]) AND urgent_at <= statement_timestamp()
  AND EXISTS (SELECT FROM pgqueue_task_pause WHERE until > statement_timestamp())

-- name: are_left
-- After `lanes` found no lane: whether other workers have some lanes locked.
SELECT EXISTS (
    SELECT FROM pgqueue_lane
    WHERE
-- include: whose_turn_it_is
    )

-- name: claim
-- Take as many messages from locked lanes as their policies allow: one turn of each lane, in the order of
-- the turns. Of ordered messages only the first is taken. Running messages are counted each time: a stored
-- counter would drift. Lanes that were not reached keep their turn: also from the first message on that is too heavy
-- for the channel's limits now.
-- include: first_of_lanes
-- include: taken_from_lanes

-- name: claim_urgent
-- Take urgent messages in the same way, and no others.
-- include: urgent_of_lanes
-- include: taken_from_lanes

-- name: taken_from_lanes
, taken AS (
    UPDATE pgqueue_message m
-- include: leased
    FROM fast
    WHERE m.id = ANY (ARRAY(SELECT id FROM fitting))
    RETURNING
-- include: claimed
), taken_weights AS MATERIALIZED (
    SELECT m.key, m.ordered,
-- include: weight_of_m
           AS weight
    FROM taken m
), stopped AS MATERIALIZED (
    -- The first message that the limits of its lane allow, and the limits of the channel do not.
    SELECT turn, weight, has_gate_tokens FROM weighed
    WHERE has_places AND has_tokens AND NOT (has_gate_places AND has_gate_tokens)
    ORDER BY turn, number
    LIMIT 1
), served AS MATERIALIZED (
    SELECT room.*, coalesce(k.taken, 0) AS taken, coalesce(k.parallel, 0) AS parallel, coalesce(k.used, 0) AS used,
           k.heaviest, least(coalesce(too_heavy.weight, 1), room.burst) AS next,
           coalesce(NOT too_heavy.has_places, false) AS lacks_places,
           coalesce(NOT too_heavy.has_tokens, false) AS lacks_tokens,
           room.head IS NOT NULL AND coalesce(k.taken, 0) = coalesce(k.parallel, 0) AS has_head
    FROM room
    LEFT JOIN (SELECT key, count(*) AS taken, count(*) FILTER (WHERE NOT ordered) AS parallel,
                      sum(weight) AS used, max(weight) AS heaviest
               FROM taken_weights GROUP BY key) k USING (key)
    LEFT JOIN (SELECT DISTINCT ON (turn) turn, weight, has_places, has_tokens
               FROM weighed WHERE NOT (has_places AND has_tokens)
               ORDER BY turn, number) too_heavy USING (turn)
    WHERE room.is_reached AND NOT EXISTS (
        SELECT FROM stopped s WHERE room.turn > s.turn OR room.turn = s.turn AND k.taken IS NULL)
), moved AS (
    -- A lane is idle if it has no visible messages, locked or not: a cancel that has a row locked may roll
    -- back, and inserts no bell then. A message that was claimed before its policy existed may insert no
    -- bell at its end, either. So a lane that waits for such a message stays runnable, and is read again.
    --
    -- A lane that was asked for urgent messages alone, and gave none, keeps its turn: it has not had it yet.
    UPDATE pgqueue_lane l
    SET turn_at = CASE WHEN s.taken = 0 AND %(is_urgent)s THEN l.turn_at ELSE s.now END,
        heaviest = coalesce(s.heaviest, l.heaviest),
        tat = CASE WHEN s.gap IS NULL OR s.taken = 0 THEN l.tat ELSE greatest(s.tat, s.now) + least(s.used * s.gap,
-- include: longest_debt
              ) END,
        paused_until = s.paused_until,
        wake_at = CASE WHEN s.paused_until IS NOT NULL OR s.let_through = 0 AND s.open_until > s.now
                       THEN greatest(s.paused_until, CASE WHEN s.let_through = 0 THEN s.open_until END)
                       WHEN (s.tokens <= s.used OR s.lacks_tokens) AND s.gap IS NOT NULL
                       THEN greatest(s.tat, s.now) + least(s.used * s.gap,
-- include: longest_debt
                            ) - (s.burst - s.next) * s.gap END,
        state = CASE
            WHEN s.paused_until IS NOT NULL OR s.let_through = 0 AND s.open_until > s.now THEN 'throttled'
            -- The probe of the lane's breaker runs. It is governed, so that its end inserts a bell.
            WHEN s.let_through <= s.taken THEN 'saturated'
            WHEN s.places <= s.used OR s.lacks_places THEN CASE WHEN s.ungoverned = 0 THEN 'saturated' ELSE 'runnable' END
            WHEN s.tokens <= s.used OR s.lacks_tokens THEN 'throttled'
            WHEN s.has_head OR (
                SELECT count(*) FROM (
                    SELECT FROM pgqueue_message m
                    WHERE m.state = 'ready' AND m.governed AND NOT m.ordered
                      AND m.channel = %(channel)s AND m.key = s.key
                    LIMIT s.parallel + 1) z) > s.parallel THEN 'runnable'
            ELSE 'idle' END
    FROM served s
    WHERE l.ctid = s.place
),
-- include: noticed
-- At least one row, which tells how many lanes were reached even if they had no messages. It has the sum and the maximum
-- of the weights, and the weight of the message for which the rate of the channel has to wait. The last figure is the
-- number of lanes that gave the probe of their breaker.
SELECT (SELECT count(*) FROM noticed), (SELECT count(*) FROM served), w.used, w.heaviest,
       (SELECT weight FROM stopped WHERE NOT has_gate_tokens),
       (SELECT count(*) FROM served WHERE let_through = 1 AND taken = 1), taken.*
FROM (SELECT coalesce(sum(weight), 0)::int AS used, coalesce(max(weight), 1) AS heaviest FROM taken_weights) w
LEFT JOIN taken ON true
ORDER BY taken.ordered DESC, taken.priority DESC, taken.run_at, taken.id

-- name: chosen
-- include: first_of_lanes
SELECT id FROM fitting

-- name: chosen_urgent
-- include: urgent_of_lanes
SELECT id FROM fitting

-- name: first_of_lanes
-- include: rooms_of_lanes
, picked AS MATERIALIZED (
    SELECT room.turn, room.max_running, room.places, room.burst, room.tokens, found.*, row_number() OVER () AS number
    FROM room CROSS JOIN LATERAL (
-- include: first_in_lane
        LIMIT room.n) found
),
-- include: fitting_of_lanes

-- name: urgent_of_lanes
-- include: rooms_of_lanes
, picked AS MATERIALIZED (
    SELECT room.turn, room.max_running, room.places, room.burst, room.tokens, found.*, row_number() OVER () AS number
    FROM room CROSS JOIN LATERAL (
-- include: urgent_in_lane
        LIMIT room.n) found
),
-- include: fitting_of_lanes

-- name: rooms_of_lanes
WITH fast AS MATERIALIZED (
-- include: unflushed
), open AS MATERIALIZED (
    SELECT lane.key, lane.turn, l.ctid AS place, l.tat, l.paused_until, p.max_running, p.gap, coalesce(p.burst, 1) AS burst,
           coalesce(p.weight, 1) AS weight, statement_timestamp() AS now,
           coalesce(r.weight, 0) AS running, r.ungoverned,
           head.id AS head,
-- include: let_through_by_b
           AS let_through,
           -- An end beyond the policy's pause is none: the lane would wait for it while a probe runs.
           CASE WHEN
-- include: is_within_its_pause
                THEN b.open_until END AS open_until
    FROM (SELECT %(channel)s::text AS channel, key, turn
          FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS k (key, turn)) lane
    CROSS JOIN LATERAL (
        -- LATERAL makes PostgreSQL find each lane by its key, for any statistics of the table.
        SELECT l.ctid, l.tat, CASE WHEN l.paused_until > statement_timestamp() THEN l.paused_until END AS paused_until
        FROM pgqueue_lane l
        WHERE l.channel = %(channel)s AND l.key = lane.key
        LIMIT 1) l
    LEFT JOIN LATERAL (
        -- The key's own policy replaces the policy for each key. It is found by its id: to sort both takes each lane longer.
        -- In a channel whose keys have no policies of their own, one look at the index replaces one for each lane.
        SELECT p.max_running, p.weight, p.breaker_failures, p.breaker_pause,
-- include: rate_of_p
        FROM pgqueue_policy p
        WHERE p.id = coalesce(
            CASE WHEN EXISTS (SELECT FROM pgqueue_policy WHERE channel = %(channel)s AND scope = 'key')
                 THEN (SELECT id FROM pgqueue_policy WHERE channel = %(channel)s AND scope = 'key' AND key = lane.key) END,
            CASE WHEN lane.key <> ''
                 THEN (SELECT id FROM pgqueue_policy WHERE channel = %(channel)s AND scope = 'each' AND key = '') END)
        LIMIT 1) p ON true
    LEFT JOIN LATERAL (
        -- Where the limit ends the count, and each counted message is governed, a place is free only when one of them ends.
        SELECT sum(weight) AS weight, count(*) FILTER (WHERE NOT governed) AS ungoverned
        FROM (
            SELECT
-- include: weight_of_m
                   AS weight, m.governed
            FROM pgqueue_message m
            WHERE p.max_running IS NOT NULL AND m.state = 'running' AND m.channel = %(channel)s AND m.key = lane.key
            LIMIT p.max_running) counted) r ON true
    LEFT JOIN LATERAL (
        SELECT b.open_until, b.probe_id, b.probe_attempt FROM pgqueue_breaker b
        WHERE p.breaker_failures IS NOT NULL AND b.channel = %(channel)s AND b.key = lane.key
        LIMIT 1) b ON true
    LEFT JOIN LATERAL (
-- include: head_of_lane
        ) head ON true
), allowed AS MATERIALIZED (
    SELECT *,
           weight * ceil(%(limit)s::float8 / sum(weight) OVER ()) AS share,
           greatest(0, coalesce(max_running - running, 1000000))::int AS places,
           CASE WHEN paused_until IS NOT NULL THEN 0 ELSE
-- include: tokens
           END AS tokens
    FROM open
), room AS MATERIALIZED (
    SELECT *, least(wanted, greatest(0, %(limit)s - before))::int AS n, before < %(limit)s AS is_reached
    FROM (
        SELECT *, coalesce(sum(wanted) OVER (ORDER BY turn ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
        FROM (SELECT *, least(share, places, tokens, let_through)::int AS wanted FROM allowed) a) b
)

-- name: first_in_lane
        SELECT * FROM (
            SELECT m.id,
-- include: size_of_m
                   ,
-- include: weight_of_m
                   AS weight
            FROM pgqueue_message m
            WHERE m.id = room.head AND m.state = 'ready' AND room.n > 0 AND
-- include: takes_it
              AND
-- include: not_left_out
            FOR NO KEY UPDATE SKIP LOCKED) ordered
        UNION ALL
        SELECT * FROM (
            SELECT m.id,
-- include: size_of_m
                   ,
-- include: weight_of_m
                   AS weight
            FROM pgqueue_message m
            WHERE m.state = 'ready' AND m.governed AND NOT m.ordered
              AND m.channel = %(channel)s AND m.key = room.key
              AND (m.expires_at IS NULL OR m.expires_at > statement_timestamp()) AND
-- include: takes_it
              AND
-- include: not_left_out
            ORDER BY m.rank, m.run_at, m.id
            LIMIT room.n
            FOR NO KEY UPDATE SKIP LOCKED) parallel

-- name: urgent_in_lane
        SELECT * FROM (
            SELECT m.id,
-- include: size_of_m
                   ,
-- include: weight_of_m
                   AS weight
            FROM pgqueue_message m JOIN pgqueue_channel c ON c.name = m.channel
            WHERE m.id = room.head AND m.state = 'ready' AND room.n > 0
              AND (c.urgent_first AND m.rank <= -50 OR m.run_at <= statement_timestamp() - c.age_after) AND
-- include: takes_it
              AND
-- include: not_left_out
            FOR NO KEY UPDATE OF m SKIP LOCKED) ordered
        UNION ALL
        SELECT * FROM (
            SELECT m.id,
-- include: size_of_m
                   ,
-- include: weight_of_m
                   AS weight
            FROM pgqueue_message m
            WHERE m.id = ANY (ARRAY(
-- include: urgent_ids
                  ))
              AND m.state = 'ready' AND m.governed AND NOT m.ordered
              AND m.channel = %(channel)s AND m.key = room.key
              AND (m.expires_at IS NULL OR m.expires_at > statement_timestamp()) AND
-- include: takes_it
              AND
-- include: not_left_out
            -- A message that has waited for too long has the priority 50, unless its own is higher.
            ORDER BY least(m.rank, -50), m.run_at, m.id
            LIMIT room.n
            FOR NO KEY UPDATE SKIP LOCKED) parallel

-- name: urgent_ids
-- The first messages of a lane by their priority, and the oldest ones of each priority.
WITH RECURSIVE lane AS (
    SELECT c.name AS channel, room.key, c.urgent_first, statement_timestamp() - c.age_after AS long_ago
    FROM pgqueue_channel c WHERE c.name = %(channel)s
), ranks AS (
-- include: ranks_of_lane
)
(SELECT first.id FROM lane CROSS JOIN LATERAL (
    SELECT m.id FROM pgqueue_message m
    WHERE lane.urgent_first AND m.rank <= -50 AND
-- include: is_parallel_in_lane
      AND
-- include: takes_it
      AND
-- include: not_left_out
    ORDER BY m.rank, m.run_at, m.id LIMIT room.n) first)
UNION ALL
(SELECT oldest.id FROM lane CROSS JOIN ranks CROSS JOIN LATERAL (
    SELECT m.id FROM pgqueue_message m
    WHERE m.rank = ranks.rank AND m.run_at <= lane.long_ago AND
-- include: is_parallel_in_lane
      AND
-- include: takes_it
      AND
-- include: not_left_out
    ORDER BY m.run_at, m.id LIMIT room.n) oldest
 WHERE ranks.run_at <= lane.long_ago)

-- name: fitting_of_lanes
-- A message that is heavier than a limit counts for the whole limit: it runs alone. The first one that does not
-- fit now keeps the ones behind it waiting: otherwise lighter ones might overtake it for ever. One window weighs the
-- messages of all lanes, since a claim from a hundred lanes would begin a window of each lane a hundred times.
weighed AS MATERIALIZED (
    SELECT *,
           coalesce(sum(least(weight, %(gate_running)s::int)) FILTER (WHERE has_places AND has_tokens) OVER so_far
                    <= %(gate_places)s::int, true) AS has_gate_places,
           coalesce(sum(least(weight, %(gate_burst)s::int)) FILTER (WHERE has_places AND has_tokens) OVER so_far
                    <= %(gate_tokens)s::int, true) AS has_gate_tokens
    FROM (
        SELECT turn, number, id, size, is_packed, weight,
               sum(least(weight, max_running)) OVER of_lane <= places AS has_places,
               sum(least(weight, burst)) OVER of_lane <= tokens AS has_tokens
        FROM picked
        WINDOW of_lane AS (PARTITION BY turn ORDER BY number ROWS UNBOUNDED PRECEDING)) fitting_its_lane
    WINDOW so_far AS (ORDER BY turn, number ROWS UNBOUNDED PRECEDING)
), due AS MATERIALIZED (
    SELECT id, size, is_packed
    FROM weighed
    WHERE has_places AND has_tokens AND has_gate_places AND has_gate_tokens
),
-- include: fitting
