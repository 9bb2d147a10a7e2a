-- name: members
-- The messages of a group in a flow, and their task_ids.
SELECT DISTINCT id, metadata -> 'celery' ->> 'id'
FROM (
    SELECT id, metadata FROM pgqueue_message WHERE flow_id = %(flow_id)s
    UNION ALL
    SELECT id, metadata FROM pgqueue_history WHERE flow_id = %(flow_id)s) m
WHERE metadata -> 'celery' ->> 'group' = %(group)s
ORDER BY id
