-- name: failed
-- The first message that failed of those that one waited for.
SELECT d.parent_id
FROM pgqueue_dependency d
WHERE d.flow_id = %(flow_id)s AND d.child_id = %(id)s
  AND (EXISTS (SELECT FROM pgqueue_failed_member f WHERE f.message_id = d.parent_id)
       OR EXISTS (SELECT FROM pgqueue_message m WHERE m.id = d.parent_id AND m.state || '' = 'dead'))
ORDER BY d.parent_id
LIMIT 1
