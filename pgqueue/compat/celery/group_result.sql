-- name: members
-- The messages of a group of a flow, and the task_ids that they were given.
SELECT DISTINCT id, metadata -> 'celery' ->> 'id'
FROM (
    SELECT id, metadata FROM pgqueue_message WHERE flow_id = %(flow_id)s
    UNION ALL
    SELECT id, metadata FROM pgqueue_history WHERE flow_id = %(flow_id)s) m
WHERE metadata -> 'celery' ->> 'group' = %(group)s
ORDER BY id
