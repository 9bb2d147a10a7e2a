-- name: in_use
-- Every channel that is configured, or has something ready, running or dead: a loose index
-- scan each, one probe a channel.
WITH RECURSIVE ready AS (
    (SELECT channel FROM pgqueue_message
     WHERE state = 'ready' AND NOT governed
     ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT next.channel FROM ready CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_message
        WHERE state = 'ready' AND NOT governed AND channel > ready.channel
        ORDER BY channel LIMIT 1) next
), running AS (
    (SELECT channel FROM pgqueue_message WHERE state = 'running' ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT next.channel FROM running CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_message
        WHERE state = 'running' AND channel > running.channel
        ORDER BY channel LIMIT 1) next
), dead AS (
    (SELECT channel FROM pgqueue_message WHERE state = 'dead' ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT next.channel FROM dead CROSS JOIN LATERAL (
        SELECT channel FROM pgqueue_message
        WHERE state = 'dead' AND channel > dead.channel
        ORDER BY channel LIMIT 1) next
)
SELECT name FROM pgqueue_channel
UNION SELECT * FROM (SELECT channel FROM ready LIMIT %(limit)s) r
UNION SELECT * FROM (SELECT channel FROM running LIMIT %(limit)s) r
UNION SELECT * FROM (SELECT channel FROM dead LIMIT %(limit)s) d
ORDER BY 1
