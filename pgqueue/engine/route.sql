-- name: look
-- Whether there are bells, whether messages may have been stored before their policy, and the seconds until a rate
-- or a breaker allows the next start.
SELECT EXISTS (SELECT FROM pgqueue_bell WHERE id > %(after)s),
       EXISTS (SELECT FROM pgqueue_policy WHERE governs),
       (SELECT extract(epoch FROM min(wake_at) - clock_timestamp())::float8 FROM (
            (SELECT wake_at FROM pgqueue_lane lane WHERE state = 'throttled' AND
-- include: lane_not_left_out
             ORDER BY wake_at LIMIT 1)
            UNION ALL
            SELECT wake_at FROM pgqueue_gate WHERE wake_at > clock_timestamp()
            UNION ALL
            SELECT open_until FROM pgqueue_breaker WHERE open_until > clock_timestamp()) w)

-- name: channels
-- Every channel with a runnable lane, by one probe for each channel, as in `claim`.
WITH RECURSIVE found AS (
    (SELECT channel FROM pgqueue_lane WHERE state = 'runnable' ORDER BY channel, turn_at LIMIT 1)
    UNION ALL
    SELECT next.channel FROM found CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_lane
        WHERE state = 'runnable' AND channel > found.channel
        ORDER BY channel, turn_at LIMIT 1) next
)
SELECT channel FROM found
WHERE channel <> ALL (%(excluded)s::text[])
  AND channel NOT IN (SELECT name FROM pgqueue_channel WHERE
-- include: is_paused
  )

-- name: take
-- Take the bells, if the router's lock is free. No row: another session has the lock. One statement does both: the
-- next one takes the bells that it does not see.
-- The bells are taken in their order. If there are more than the limit, each channel has its turn, too. Otherwise the
-- first bell of a channel would wait behind all keys that were enqueued at once in another one. `after` moves on by the
-- order alone.
WITH RECURSIVE unflushed AS MATERIALIZED (
-- include: unflushed
), turn AS MATERIALIZED (
-- include: lock
), first AS MATERIALIZED (
    SELECT id FROM pgqueue_bell
    WHERE id > %(after)s AND
-- include: within
    ORDER BY id
    LIMIT %(limit)s
), rest AS MATERIALIZED (
    SELECT max(id) AS after FROM first HAVING count(*) >= %(limit)s
), channels AS (
    (SELECT b.channel FROM rest CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_bell ORDER BY channel, id LIMIT 1) b)
    UNION ALL
    SELECT next.channel FROM channels CROSS JOIN LATERAL (
        SELECT b.channel FROM pgqueue_bell b
        WHERE b.channel > channels.channel
        ORDER BY b.channel, b.id LIMIT 1) next
), counted AS MATERIALIZED (
    SELECT count(*) AS number FROM channels
), later AS MATERIALIZED (
    SELECT found.id
    FROM rest CROSS JOIN channels CROSS JOIN LATERAL (
        SELECT id FROM pgqueue_bell
        WHERE channel = channels.channel AND id > rest.after AND
-- include: within
        ORDER BY channel, id
        LIMIT greatest(1, %(limit)s / (SELECT number FROM counted))) found
), rung AS (
    DELETE FROM pgqueue_bell
    USING turn
    WHERE id = ANY (ARRAY(SELECT id FROM first UNION ALL SELECT id FROM later))
    RETURNING id, channel, key, ended, woken
)
SELECT rung.id, rung.channel, rung.key, rung.ended, rung.woken, rung.id <= (SELECT max(id) FROM first)
FROM unflushed CROSS JOIN turn LEFT JOIN rung ON true

-- name: mark
-- This statement follows the one that took the bells. A claim that is about to mark its lane idle has the lane locked,
-- and this statement waits for the claim. There must be no condition on the state: it would be checked against the row
-- as it was before the wait, and the bell would be lost.
-- It returns the lanes in which messages may be urgent.
WITH marked AS (
    INSERT INTO pgqueue_lane AS lane (channel, key, state, turn_at, tat)
    SELECT channel, key, 'runnable', clock_timestamp(), 'epoch'
    FROM unnest(%(channels)s::text[], %(keys)s::text[]) AS rung (channel, key)
    ON CONFLICT (channel, key) DO UPDATE
    SET state = CASE WHEN lane.state = 'throttled' AND lane.wake_at > clock_timestamp()
                     THEN 'throttled' ELSE 'runnable' END,
        turn_at = CASE WHEN lane.state IN ('runnable', 'throttled') THEN lane.turn_at ELSE excluded.turn_at END
    RETURNING channel, key
)
-- include: with_urgent

-- name: with_urgent
SELECT channel, key FROM marked
WHERE channel IN (
    SELECT name FROM pgqueue_channel WHERE
-- include: has_urgent
    )

-- name: mark_urgent
-- include: urgency_marked

-- name: blocked
-- Keys with a dead letter in ordered lanes, for channels whose on_dead may have changed. The row of a lane whose
-- messages wait behind the dead letter may have been deleted.
SELECT DISTINCT channel, key FROM pgqueue_message
WHERE ordered AND state = 'dead' AND channel = ANY (%(channels)s::text[])

-- name: mark_all
-- Mark all lanes of channels whose policies changed. A lane that the old rate delayed waits at most for the new rate.
WITH marked AS (
    UPDATE pgqueue_lane lane
    SET state = 'runnable',
        wake_at = NULL,
        turn_at = CASE WHEN lane.state = 'runnable' THEN least(lane.turn_at, clock_timestamp()) ELSE clock_timestamp() END,
        tat = least(lane.tat, coalesce(
            clock_timestamp() + (
                SELECT p.per / p.rate
                       * greatest(lane.heaviest, coalesce(p.burst, ceil(p.rate / extract(epoch FROM p.per) / 10)))
                FROM pgqueue_policy p
                WHERE p.channel = lane.channel AND p.rate IS NOT NULL
                  AND p.scope IN ('each', 'key') AND p.key IN ('', lane.key) AND lane.key <> ''
                ORDER BY p.scope = 'key' DESC LIMIT 1), 'epoch'))
    WHERE lane.channel = ANY (%(channels)s::text[])
      AND (%(keys)s::text[] IS NULL OR lane.key = ANY (%(keys)s::text[]))
    RETURNING channel, key
)
-- include: with_urgent

-- name: keys_of
SELECT key FROM pgqueue_lane WHERE channel = %(channel)s

-- name: ring_ahead
-- Ring for channels with a lane whose last turn lies in the future: the server's clock was set back. So it was where a
-- gate delays messages for longer than its rate and the heaviest message of the last claim. The router marks their lanes again, and bounds their delays.
WITH rung AS (
    INSERT INTO pgqueue_bell (channel)
    SELECT channel FROM pgqueue_lane WHERE turn_at > statement_timestamp() + interval '1 second'
    UNION
    SELECT gate.channel
    FROM pgqueue_gate gate JOIN pgqueue_policy p ON p.channel = gate.channel AND p.scope = 'channel' AND p.rate IS NOT NULL
    WHERE gate.tat > statement_timestamp() + interval '1 second'
              + p.per / p.rate
                * greatest(gate.heaviest, coalesce(p.burst, ceil(p.rate / extract(epoch FROM p.per) / 10)))
    RETURNING channel
)
SELECT pgqueue_tell_v1(channel) FROM rung

-- name: ring
-- Ring again for lanes whose mark fails now.
INSERT INTO pgqueue_bell (channel, key) VALUES (%(channel)s, %(key)s)

-- name: mark_gates
-- Store when the gate's rate allows the next start. A claim stores this only if it took a message.
UPDATE pgqueue_gate gate
SET tat = least(gate.tat, coalesce(clock_timestamp() + greatest(pace.burst, gate.heaviest) * pace.gap, 'epoch')),
    wake_at = least(gate.tat, clock_timestamp() + greatest(pace.burst, gate.heaviest) * pace.gap)
              - (pace.burst - 1) * pace.gap
FROM unnest(%(channels)s::text[]) AS rung (channel)
LEFT JOIN LATERAL (
    SELECT p.per / p.rate AS gap,
           coalesce(p.burst, greatest(1, ceil(p.rate / extract(epoch FROM p.per) / 10))) AS burst
    FROM pgqueue_policy p
    WHERE p.channel = rung.channel AND p.rate IS NOT NULL AND p.scope = 'channel') pace ON true
WHERE gate.channel = rung.channel

-- name: ripen
-- Only the router changes a throttled lane, so no other change comes between.
UPDATE pgqueue_lane
SET state = 'runnable', wake_at = NULL, turn_at = clock_timestamp()
WHERE (channel, key) IN (
-- include: ripe
)

-- name: ripe
SELECT channel, key FROM pgqueue_lane lane
WHERE state = 'throttled' AND wake_at <= clock_timestamp() AND
-- include: lane_not_left_out
ORDER BY wake_at LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED

-- name: which_are_ripe
-- include: ripe

-- name: ripen_some
UPDATE pgqueue_lane
SET state = 'runnable', wake_at = NULL, turn_at = clock_timestamp()
WHERE (channel, key) IN (
-- include: named
)

-- name: named
SELECT * FROM unnest(%(channels)s::text[], %(keys)s::text[])

-- name: lane_not_left_out
(lane.channel, lane.key) NOT IN (SELECT * FROM unnest(%(aside_channels)s::text[], %(aside_keys)s::text[]))

-- name: strays
-- Mark ready messages as governed that a policy governs, although they are not marked: the policy was saved before
-- their transaction committed. One probe for each policy finds them.
WITH stray AS MATERIALIZED (
    SELECT found.id
    FROM pgqueue_policy p CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT m.id FROM pgqueue_message m
            WHERE p.scope = 'key' AND p.weight IS NULL
              AND m.state = 'ready' AND NOT m.governed AND m.channel = p.channel AND m.key = p.key
            ORDER BY m.rank, m.run_at, m.id
            LIMIT %(limit)s
            FOR NO KEY UPDATE SKIP LOCKED) of_one_key
        UNION ALL
        SELECT * FROM (
            SELECT m.id FROM pgqueue_message m
            WHERE NOT (p.scope = 'key' AND p.weight IS NULL)
              AND m.state = 'ready' AND NOT m.governed AND m.channel = p.channel
              AND m.key >= CASE WHEN p.scope = 'each' AND p.weight IS NULL THEN chr(1) ELSE '' END
            ORDER BY m.key, m.rank, m.run_at, m.id
            LIMIT %(limit)s
            FOR NO KEY UPDATE SKIP LOCKED) of_many
        LIMIT %(limit)s) found
    WHERE p.governs AND found.id BETWEEN %(first)s::bigint AND %(last)s::bigint AND found.id <> ALL (%(aside)s::bigint[])
    LIMIT %(limit)s
)
UPDATE pgqueue_message
SET governed = true
WHERE id = ANY (ARRAY(SELECT id FROM stray))
RETURNING channel, key

-- name: has_work
-- A condition on "… lane (channel, key)": the lane has a message that a claim would take if limits allowed it.
(SELECT count(*) FROM (
     SELECT FROM pgqueue_message m
     WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = lane.channel AND m.key = lane.key
     LIMIT 1) w) > 0
OR (SELECT count(*) FROM (
-- include: head_of_lane
    ) h) > 0

-- name: next_weight
-- The weight of the message that a claim takes next from "… lane (channel, key)".
SELECT weight FROM (
    SELECT 1 AS place, NULL::smallint AS rank, NULL::timestamptz AS run_at, m.id,
-- include: weight_of_m
           AS weight
    FROM pgqueue_message m
    WHERE m.id = (
-- include: head_of_lane
        )
    UNION ALL
    SELECT * FROM (
        SELECT 2, m.rank, m.run_at, m.id,
-- include: weight_of_m
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = lane.channel AND m.key = lane.key
        ORDER BY m.rank, m.run_at, m.id LIMIT 1) parallel) first
ORDER BY place LIMIT 1

-- name: forget
-- Delete idle lanes without messages and without a past that their rate must remember. A bell creates them again. An
-- idle lane with messages is kept, so that `contradictions` finds it.
DELETE FROM pgqueue_lane
WHERE ctid = ANY (ARRAY(
    SELECT lane.ctid FROM pgqueue_lane lane
    WHERE
-- include: is_empty
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))

-- name: forget_breakers
-- Delete breakers that no policy asks for, or that are closed and have no failure that counts.
DELETE FROM pgqueue_breaker
WHERE (channel, key) IN (
    SELECT b.channel, b.key
    FROM pgqueue_breaker b LEFT JOIN LATERAL pgqueue_breaker_of_v1(b.channel, b.key) own ON true
    WHERE own.failures IS NULL OR b.open_until IS NULL AND pgqueue_failed_lately_v1(b.failed_at, own.within) = '{}'
    LIMIT %(limit)s
    FOR UPDATE OF b SKIP LOCKED)

-- name: over
SELECT lane.ctid::text, lane.channel, lane.key FROM pgqueue_lane lane
WHERE
-- include: is_empty
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: is_empty
lane.state = 'idle' AND lane.tat <= statement_timestamp()
AND (SELECT count(*) FROM (
         SELECT FROM pgqueue_message m
         WHERE m.state = 'running' AND m.channel = lane.channel AND m.key = lane.key
         LIMIT 1) r) = 0
AND NOT (
-- include: has_work
)

-- name: contradictions
-- Lanes that have been marked as idle or saturated for a while, although they have messages and room. There should be
-- none.
SELECT lane.channel, lane.key
FROM pgqueue_lane lane
LEFT JOIN LATERAL (
    SELECT p.max_running FROM pgqueue_policy p
    WHERE p.channel = lane.channel AND p.governs
      AND p.scope IN ('each', 'key') AND p.key IN ('', lane.key) AND lane.key <> ''
    ORDER BY p.scope = 'key' DESC LIMIT 1) p ON true
WHERE lane.state IN ('idle', 'saturated') AND lane.turn_at < statement_timestamp() - interval '5 seconds'
  AND (lane.state = 'idle' OR p.max_running IS NULL OR (
           SELECT coalesce(sum(
-- include: weight_of_m
               ), 0)
           FROM pgqueue_message m
           WHERE m.state = 'running' AND m.channel = lane.channel AND m.key = lane.key) + least(p.max_running, (
-- include: next_weight
           )) <= p.max_running)
  AND (
-- include: has_work
  )
  AND
-- include: lane_not_left_out
  AND NOT EXISTS (
      SELECT FROM pgqueue_breaker b JOIN pgqueue_message m ON m.id = b.probe_id AND m.attempt = b.probe_attempt
      WHERE b.channel = lane.channel AND b.key = lane.key AND m.state || '' = 'running')
  -- With a bell that waits for the router, the lane is about to be marked.
  AND NOT EXISTS (
      SELECT FROM pgqueue_bell b
      WHERE b.channel = lane.channel AND (b.key = lane.key OR b.key IS NULL))
LIMIT %(limit)s

-- name: lock
-- The router's lock is a row, which only a role with a right to it can lock. Any role could take an advisory lock.
SELECT name FROM pgqueue_lock WHERE name = 'route' FOR UPDATE SKIP LOCKED
