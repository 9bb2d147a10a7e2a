-- name: channels
-- Every channel with a ready message, by a loose index scan: one probe for each channel.
WITH RECURSIVE found AS (
    (SELECT channel FROM pgqueue_message m
     WHERE state = 'ready' AND NOT governed AND
-- include: takes_it
     ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT next.channel FROM found CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_message m
        WHERE state = 'ready' AND NOT governed AND channel > found.channel AND
-- include: takes_it
        ORDER BY channel LIMIT 1) next
)
SELECT channel FROM found
WHERE channel <> ALL (%(excluded)s::text[])
  AND channel NOT IN (SELECT name FROM pgqueue_channel WHERE
-- include: is_paused
    )

-- name: claim
-- include: first_of_lanes
, taken AS (
    UPDATE pgqueue_message m
-- include: leased
    FROM fast
    WHERE m.id = ANY (ARRAY(SELECT id FROM fitting))
    RETURNING
-- include: claimed
),
-- include: noticed
SELECT (SELECT count(*) FROM noticed), met.lanes, met.last_key, met.channel, taken.*
FROM taken FULL JOIN met ON met.channel = taken.channel
ORDER BY taken.priority DESC, taken.run_at, taken.id

-- name: chosen
-- include: first_of_lanes
SELECT id FROM fitting

-- name: first_of_lanes
-- Lease the first messages of lanes: of known lanes, behind the last message taken; and of lanes that a
-- loose index scan finds in the searched channels, from a position on. A claim that resumes like this
-- never walks the dead index entries of earlier claims, which a long transaction may keep alive.
--
-- `fast` must be referenced below, or it would not run.
WITH RECURSIVE fast AS MATERIALIZED (
-- include: unflushed
), paused AS MATERIALIZED (
    SELECT name FROM pgqueue_channel WHERE
-- include: is_paused
), searched AS MATERIALIZED (
    SELECT *
    FROM unnest(%(searched)s::text[], %(after_keys)s::text[], %(after_ranks)s::smallint[],
                %(rooms)s::int[], %(shares)s::int[])
        AS s (channel, key, rank, room, share)
    WHERE channel NOT IN (SELECT name FROM paused)
), found AS (
    -- By the row comparison, one probe begins at a channel's front ('' is a key), or behind all messages of
    -- a key. "(channel, key) > … AND channel = …" would always begin at the channel's front.
    SELECT s.channel, first.key, s.room, s.share, 1 AS n
    FROM searched s CROSS JOIN LATERAL (
        SELECT key FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed AND m.channel = s.channel
          AND (m.key, m.rank) > (s.key, s.rank) AND
-- include: takes_it
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) first
    UNION ALL
    SELECT f.channel, next.key, f.room, f.share, f.n + 1
    FROM found f CROSS JOIN LATERAL (
        SELECT key FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed AND m.channel = f.channel AND m.key > f.key AND
-- include: takes_it
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) next
    WHERE f.n < f.room
), met AS MATERIALIZED (
    SELECT channel, count(*)::int AS lanes, max(key) AS last_key FROM found GROUP BY channel
), lanes AS (
    SELECT *
    FROM unnest(%(channels)s::text[], %(keys)s::text[], %(ranks)s::smallint[],
                %(run_ats)s::timestamptz[], %(ids)s::bigint[], %(quotas)s::int[])
        AS k (channel, key, rank, run_at, id, quota)
    WHERE channel NOT IN (SELECT name FROM paused)
    UNION ALL
    SELECT f.channel, f.key, (-32768)::smallint, 'epoch'::timestamptz, 0::bigint,
           greatest(1, f.share / met.lanes)
    FROM found f JOIN met USING (channel)
), free AS (
    -- The policy is also checked here: it may be newer than the messages and their flags.
    SELECT *
    FROM lanes
    WHERE NOT (channel IN (SELECT channel FROM pgqueue_policy WHERE governs)
               AND pgqueue_is_governed_v1(channel, key))
      AND (channel, key) NOT IN (
-- include: paused_lanes
      )
), due AS MATERIALIZED (
    -- MATERIALIZED keeps the LIMIT: the planner may run a plain subquery again for each joined row, and so
    -- lease more messages than the limit.
    SELECT head.id, head.size, head.is_packed
    FROM free CROSS JOIN LATERAL (
        SELECT m.id,
-- include: size_of_m
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed
          AND m.channel = free.channel AND m.key = free.key
          AND (m.rank, m.run_at, m.id) > (free.rank, free.run_at, free.id)
          AND (m.expires_at IS NULL OR m.expires_at > statement_timestamp()) AND
-- include: takes_it
          AND
-- include: not_left_out
        ORDER BY m.rank, m.run_at, m.id
        LIMIT free.quota
        FOR NO KEY UPDATE SKIP LOCKED) head
    LIMIT %(limit)s
),
-- include: fitting

-- name: claim_at_once
-- include: first_of_a_channel
, taken AS (
    UPDATE pgqueue_message m
-- include: leased
    FROM fast
    WHERE m.id = ANY (ARRAY(SELECT id FROM fitting))
    RETURNING
-- include: claimed
),
-- include: noticed
SELECT (SELECT count(*) FROM noticed), taken.*
FROM taken
ORDER BY taken.priority DESC, taken.run_at, taken.id

-- name: chosen_at_once
-- include: first_of_a_channel
SELECT id FROM fitting

-- name: attempt
-- include: try_to_lease

-- name: first_of_a_channel
-- Lease ready messages of one channel without governed lanes. After a notification, most of the time of
-- `claim` would be spent on its preparation for many lanes. Add each new rule to `first_of_lanes` and to this one:
-- tests/engine/test_two_ways.py compares them.
WITH fast AS MATERIALIZED (
-- include: unflushed
), due AS MATERIALIZED (
    SELECT m.id,
-- include: size_of_m
    FROM pgqueue_message m
    WHERE m.state = 'ready' AND NOT m.governed AND m.channel = %(channel)s
      AND (m.expires_at IS NULL OR m.expires_at > statement_timestamp())
      AND NOT EXISTS (SELECT FROM pgqueue_channel WHERE name = %(channel)s AND
-- include: is_paused
          )
      AND NOT EXISTS (SELECT FROM pgqueue_policy WHERE channel = %(channel)s AND governs)
      AND %(channel)s NOT IN (SELECT channel FROM (
-- include: paused_lanes
          ) p) AND
-- include: takes_it
      AND
-- include: not_left_out
    ORDER BY m.channel, m.key, m.rank, m.run_at, m.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
),
-- include: fitting
