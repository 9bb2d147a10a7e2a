-- name: register
-- A worker's id changes with its claim connection; the row of the previous id is deleted.
WITH before AS (
    DELETE FROM pgqueue_worker WHERE id = %(before)s::uuid
)
INSERT INTO pgqueue_worker
    (id, host, pid, started_at, last_seen, channels, excluded, info)
VALUES (%(id)s, %(host)s, %(pid)s, %(started_at)s, statement_timestamp(),
        %(channels)s::text[], %(excluded)s::text[], %(info)s::jsonb)
ON CONFLICT (id) DO UPDATE SET last_seen = statement_timestamp()

-- name: beat
UPDATE pgqueue_worker
SET last_seen = statement_timestamp(),
    notify_until = statement_timestamp() + %(notify_for)s::interval,
    info = (info - '{busy_for,left_out}'::text[]) || %(told)s::jsonb
WHERE id = %(id)s
RETURNING id

-- name: ask_to_stop
UPDATE pgqueue_worker SET info = info || jsonb_build_object('stop', %(times)s::int) WHERE id = %(id)s

-- name: requests_of
SELECT CASE WHEN info ->> 'stop' ~ '^[0-9]{1,9}$' THEN (info ->> 'stop')::int ELSE 0 END,
       extract(epoch FROM statement_timestamp() - last_seen)::float8
FROM pgqueue_worker
WHERE id = %(id)s

-- name: workers_of
SELECT id FROM pgqueue_worker WHERE info ->> 'driver' = %(driver)s

-- name: waiting
-- The messages that another worker could begin: like "unfinished" below, without running messages and retries.
WITH paused AS MATERIALIZED (
    SELECT name FROM pgqueue_channel WHERE
-- include: is_paused
)
SELECT count(*) FROM (
    (SELECT FROM pgqueue_message m
     WHERE state = 'ready' AND NOT governed
       AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
       AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused) AND
-- include: takes_it
       AND (channel, key) NOT IN (
-- include: paused_lanes
       )
     LIMIT %(limit)s)
    UNION ALL
    (SELECT FROM pgqueue_bell c
     WHERE (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
       AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused) AND
-- include: has_governed
     LIMIT %(limit)s)
    UNION ALL
    (SELECT FROM pgqueue_lane c
     WHERE (state = 'runnable' OR state = 'throttled' AND wake_at <= statement_timestamp())
       AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
       AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused) AND
-- include: has_governed
     LIMIT %(limit)s)
    UNION ALL
    (SELECT FROM pgqueue_bell WHERE ended IS NOT NULL OR woken IS NOT NULL LIMIT 1)
    LIMIT %(limit)s) found

-- name: retire
DELETE FROM pgqueue_worker WHERE id = %(id)s

-- name: bury
-- Delete the row of a process that is known to be dead: producers must not notify it any longer.
DELETE FROM pgqueue_worker WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid

-- name: correct
-- Correct workers that were seen in the future: the server's clock was set back. A living worker beats again soon.
UPDATE pgqueue_worker
SET notify_until = statement_timestamp()
        + least(greatest(notify_until - last_seen, interval '0'), interval '1 day'),
    last_seen = statement_timestamp()
WHERE id = ANY (ARRAY(
    SELECT id FROM pgqueue_worker
    WHERE last_seen > statement_timestamp() + interval '1 second'
    FOR NO KEY UPDATE SKIP LOCKED))

-- name: forget
-- Delete the rows of workers that died without deleting them.
DELETE FROM pgqueue_worker WHERE last_seen < statement_timestamp() - %(silent_for)s::interval

-- name: over
SELECT ctid::text, id FROM pgqueue_worker WHERE last_seen < statement_timestamp() - %(silent_for)s::interval FOR UPDATE SKIP LOCKED

-- name: has_governed
-- A condition on "… c (channel)": a governed message of the channel is ready. It follows WHERE.
(EXISTS (
    SELECT FROM pgqueue_message m
    WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = c.channel AND
-- include: takes_it
      AND
-- include: not_left_out
      AND
-- include: lane_of_m_not_left_out
) OR EXISTS (
    SELECT FROM pgqueue_message m
    WHERE m.ordered AND m.state IN ('held', 'scheduled', 'ready', 'running')
      AND m.state = 'ready' AND m.channel = c.channel AND
-- include: takes_it
      AND
-- include: lane_of_m_not_left_out
      -- An ordered message that is left out keeps the later messages of its lane waiting.
      AND (m.channel, m.key) NOT IN (
          SELECT channel, key FROM pgqueue_message WHERE id = ANY (%(aside)s::bigint[]) AND ordered)
))

-- name: lane_of_m_not_left_out
m.channel <> ALL (%(aside_gates)s::text[])
AND (m.channel, m.key) NOT IN (SELECT * FROM unnest(%(aside_channels)s::text[], %(aside_keys)s::text[]))
AND (m.channel, m.key) NOT IN (
-- include: paused_lanes
)

-- name: unfinished
-- Return whether the given channels have a message that is ready, running or due for a retry. Delayed messages do not count, nor
-- messages of a paused channel, key or task, nor raw messages that workers leave to consumers, nor rows that are left out.
WITH paused AS MATERIALIZED (
    SELECT name FROM pgqueue_channel WHERE
-- include: is_paused
)
SELECT EXISTS (
    SELECT FROM pgqueue_message
    WHERE state = 'running'
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[])
) OR EXISTS (
    SELECT FROM pgqueue_message m
    WHERE state = 'ready' AND NOT governed
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused) AND
-- include: takes_it
      AND
-- include: not_left_out
      AND (channel, key) NOT IN (
-- include: paused_lanes
      )
) OR EXISTS (
    -- A governed message alone does not count: behind a dead one it may wait for ever. Nor does a bell or a
    -- lane alone: it may come from a policy or a rate for which no message waits.
    SELECT FROM pgqueue_bell c
    WHERE (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused)
      AND c.id <> ALL (%(aside_bells)s::bigint[])
      AND
-- include: has_governed
) OR EXISTS (
    SELECT FROM pgqueue_lane c
    WHERE state <> 'idle'
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused)
      AND
-- include: has_governed
) OR EXISTS (
    -- The end of a message may release its children, and a signal may wake a durable run, once a worker routes its bell.
    SELECT FROM pgqueue_bell
    WHERE (ended IS NOT NULL OR woken IS NOT NULL) AND id <> ALL (%(aside_bells)s::bigint[])
) OR EXISTS (
    SELECT FROM pgqueue_message m
    WHERE state = 'scheduled' AND failures + lost > 0
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused) AND
-- include: takes_it
      AND
-- include: not_left_out
)
