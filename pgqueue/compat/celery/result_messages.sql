-- name: number
-- A task_id is a dedupe key, which is remembered from the enqueue on. A message that waits or runs for longer still has the
-- key. Both indexes begin with the channel, and a task_id does not contain the channel. So the query looks up each of the
-- few channels in turn. Messages of other tasks may have the same dedupe key: only a task_id is in the metadata, too.
WITH RECURSIVE known (channel) AS (
    (SELECT d.channel FROM pgqueue_dedupe d ORDER BY d.channel LIMIT 1)
    UNION ALL
    SELECT (SELECT d.channel FROM pgqueue_dedupe d WHERE d.channel > k.channel ORDER BY d.channel LIMIT 1)
    FROM known k
    WHERE k.channel IS NOT NULL
), living (channel) AS (
    (SELECT m.channel FROM pgqueue_message m
     WHERE m.dedupe_key IS NOT NULL AND m.state IN ('held', 'scheduled', 'ready', 'running')
     ORDER BY m.channel LIMIT 1)
    UNION ALL
    SELECT (SELECT m.channel FROM pgqueue_message m
            WHERE m.channel > l.channel
              AND m.dedupe_key IS NOT NULL AND m.state IN ('held', 'scheduled', 'ready', 'running')
            ORDER BY m.channel LIMIT 1)
    FROM living l
    WHERE l.channel IS NOT NULL
), candidate (id) AS (
    SELECT d.message_id
    FROM known k CROSS JOIN LATERAL (
        SELECT message_id FROM pgqueue_dedupe WHERE channel = k.channel AND dedupe_key = %(task_id)s LIMIT 1) d
    UNION
    SELECT m.id
    FROM living l CROSS JOIN LATERAL (
        SELECT id FROM pgqueue_message
        WHERE channel = l.channel AND dedupe_key = %(task_id)s
          AND state IN ('held', 'scheduled', 'ready', 'running')
        LIMIT 1) m
)
SELECT c.id
FROM candidate c CROSS JOIN LATERAL (
    SELECT metadata FROM pgqueue_message WHERE id = c.id
    UNION ALL
    SELECT metadata FROM pgqueue_history WHERE id = c.id
    LIMIT 1) m
WHERE m.metadata -> 'celery' ->> 'id' = %(task_id)s
ORDER BY c.id DESC
LIMIT 1
