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
