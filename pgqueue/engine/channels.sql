-- name: in_use
-- Every channel that is configured or has a message, ordered by name: a loose index scan, which finds
-- the next name by one probe of each index.
WITH RECURSIVE found AS (
    SELECT '' COLLATE "C" AS channel
    UNION ALL
    SELECT next.channel
    FROM found CROSS JOIN LATERAL (
        SELECT least(
            (SELECT name FROM pgqueue_channel WHERE name > found.channel ORDER BY name LIMIT 1),
            (SELECT channel FROM pgqueue_policy WHERE channel > found.channel ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE state = 'ready' AND NOT governed AND channel > found.channel ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE state = 'ready' AND governed AND NOT ordered AND channel > found.channel ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE ordered AND state IN ('held', 'scheduled', 'ready', 'running') AND channel > found.channel
             ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE state IN ('held', 'scheduled') AND channel > found.channel ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE state = 'running' AND channel > found.channel ORDER BY channel LIMIT 1),
            (SELECT channel FROM pgqueue_message
             WHERE state = 'dead' AND channel > found.channel ORDER BY channel LIMIT 1)) AS channel) next
    WHERE next.channel IS NOT NULL
)
SELECT channel FROM found WHERE channel <> '' LIMIT %(limit)s

-- name: lanes
-- The first governed lanes of a channel by key, and their messages, counted up to a bound.
SELECT l.key, l.state, l.turn_at, l.wake_at, running.count,
       parallel.count + ordered.count
FROM pgqueue_lane l
CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM pgqueue_message m
        WHERE m.state = 'running' AND m.channel = l.channel AND m.key = l.key
        LIMIT %(bound)s) r) running
CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM pgqueue_message m
        WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = l.channel AND m.key = l.key
        LIMIT %(bound)s) r) parallel
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE seen.state = 'ready') FROM (
        SELECT m.state FROM pgqueue_message m
        WHERE m.ordered AND m.state IN ('held', 'scheduled', 'ready', 'running')
          AND m.channel = l.channel AND m.key = l.key
        LIMIT %(bound)s) seen) ordered
WHERE l.channel = %(channel)s
ORDER BY l.key
LIMIT %(limit)s

-- name: ended
-- The channels among these that the last ended messages belong to. A channel whose messages have all ended
-- leaves no other trace, and a search by name would read the whole history.
SELECT DISTINCT channel
FROM (SELECT channel FROM pgqueue_history ORDER BY id DESC LIMIT %(last)s) ended
WHERE channel = ANY(%(channels)s)
