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

-- name: given
-- The task_id that the producer gave a message.
SELECT metadata -> 'celery' ->> 'id' FROM pgqueue_message WHERE id = %(id)s
UNION ALL
SELECT metadata -> 'celery' ->> 'id' FROM pgqueue_history WHERE id = %(id)s
LIMIT 1

-- name: children
-- The messages that wait, or have waited, for a message of a flow.
SELECT m.id, m.task
FROM (SELECT DISTINCT d.child_id FROM pgqueue_dependency d WHERE d.parent_id = %(id)s) d
CROSS JOIN LATERAL (
    SELECT id, task FROM pgqueue_message WHERE id = d.child_id
    UNION ALL
    SELECT id, task FROM pgqueue_history WHERE id = d.child_id
    LIMIT 1) m
ORDER BY m.id
