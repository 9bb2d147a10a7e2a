-- name: register
-- A worker's id changes with its claim connection; the row of the id before goes.
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
    notify_until = statement_timestamp() + %(notify_for)s::interval
WHERE id = %(id)s
RETURNING id

-- name: retire
DELETE FROM pgqueue_worker WHERE id = %(id)s

-- name: bury
-- A process that is known to be dead: nobody is to be told of messages on its account.
DELETE FROM pgqueue_worker WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid

-- name: forget
-- Rows of workers that died without a word.
DELETE FROM pgqueue_worker WHERE last_seen < statement_timestamp() - %(silent_for)s::interval

-- name: has_governed
-- "… c WHERE …": whether a governed message of the channel is ready.
(EXISTS (
    SELECT FROM pgqueue_message m
    WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = c.channel
) OR EXISTS (
    SELECT FROM pgqueue_message m
    WHERE m.ordered AND m.state IN ('held', 'scheduled', 'ready', 'running')
      AND m.state = 'ready' AND m.channel = c.channel
))

-- name: unfinished
-- Is anything left to do on these channels, or waiting for a retry? What is merely delayed
-- does not count, nor what a paused channel keeps back.
WITH paused AS MATERIALIZED (
    SELECT name FROM pgqueue_channel WHERE paused
)
SELECT EXISTS (
    SELECT FROM pgqueue_message
    WHERE state = 'running'
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[])
) OR EXISTS (
    SELECT FROM pgqueue_message
    WHERE state = 'ready' AND NOT governed
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused)
) OR EXISTS (
    -- Governed messages alone don't tell: behind a dead one they may wait for ever. Nor do bells
    -- and lanes: they may be of a policy, or of a rate, for which nothing waits.
    SELECT FROM pgqueue_bell c
    WHERE (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused)
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
    SELECT FROM pgqueue_message
    WHERE state = 'scheduled' AND failures + lost > 0
      AND (%(channels)s::text[] IS NULL OR channel = ANY (%(channels)s::text[]))
      AND channel <> ALL (%(excluded)s::text[]) AND channel NOT IN (SELECT name FROM paused)
)
