-- name: failed
-- The first failed parent of a message, its task_id, and `is_before`: other parents of the message wait for this parent,
-- so the parent comes before the group. A parent before the group comes first, whatever its id, because it may have
-- replaced another message and so have a higher id.
SELECT failed.id,
       (SELECT metadata -> 'celery' ->> 'id' FROM pgqueue_message WHERE id = failed.id
        UNION ALL
        SELECT metadata -> 'celery' ->> 'id' FROM pgqueue_history WHERE id = failed.id
        LIMIT 1),
       failed.is_before
FROM (
    SELECT d.parent_id AS id,
           EXISTS (
               SELECT FROM pgqueue_dependency later
               JOIN pgqueue_dependency own ON (own.flow_id, own.child_id, own.parent_id) = (d.flow_id, d.child_id, later.child_id)
               WHERE later.parent_id = d.parent_id) AS is_before
    FROM pgqueue_dependency d
    WHERE d.flow_id = %(flow_id)s AND d.child_id = %(id)s
      AND (EXISTS (SELECT FROM pgqueue_failed_member f WHERE f.message_id = d.parent_id)
           OR EXISTS (SELECT FROM pgqueue_message m WHERE m.id = d.parent_id AND m.state || '' = 'dead'))
    ORDER BY is_before DESC, d.parent_id
    LIMIT 1) failed
