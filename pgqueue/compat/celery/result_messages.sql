-- name: number
-- The table's key begins with the channel, and a task_id does not contain the channel. So the query looks up
-- each of the few channels in turn.
WITH RECURSIVE known (channel) AS (
    (SELECT d.channel FROM pgqueue_dedupe d ORDER BY d.channel LIMIT 1)
    UNION ALL
    SELECT (SELECT d.channel FROM pgqueue_dedupe d WHERE d.channel > k.channel ORDER BY d.channel LIMIT 1)
    FROM known k
    WHERE k.channel IS NOT NULL
)
SELECT d.message_id
FROM known k CROSS JOIN LATERAL (
    SELECT message_id FROM pgqueue_dedupe WHERE channel = k.channel AND dedupe_key = %(task_id)s LIMIT 1) d
WHERE d.message_id IS NOT NULL
ORDER BY d.message_id DESC
LIMIT 1
