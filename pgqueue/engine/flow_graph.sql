-- name: members
-- Among the messages that have not ended, only running ones have begun.
members AS MATERIALIZED (
    (SELECT id, task,
-- include: member_word
            , CASE WHEN state = 'running' THEN coalesce(started_at, claimed_at) END AS started_at,
            NULL::timestamptz AS finished_at
     FROM pgqueue_message WHERE flow_id = %(flow_id)s LIMIT %(members)s)
    UNION ALL
    (SELECT id, task, outcome, started_at, finished_at
     FROM pgqueue_history WHERE flow_id = %(flow_id)s LIMIT %(members)s)
)

-- name: waits
waits AS MATERIALIZED (
    SELECT child_id, parent_id FROM pgqueue_dependency WHERE flow_id = %(flow_id)s LIMIT %(waits)s
)

-- name: by_word
-- Columns of a SELECT, for members in the same group and state. `path` has the ids on the critical path.
       word, count(*) AS number, min(id) AS id, max(id) AS last_id, min(started_at) AS started_at,
       max(finished_at) AS finished_at, sum(finished_at - started_at) AS ran, count(finished_at - started_at) AS timed,
       string_agg(id::text, ',') FILTER (WHERE id = ANY (%(path)s::bigint[])) AS path

-- name: by_group
-- Columns of a SELECT, for all states of a group.
       min(id), max(task), sum(number)::bigint, json_object_agg(word, number)::text, min(started_at), max(finished_at),
       sum(ran) / nullif(sum(timed), 0)::float8, string_agg(path, ','),
       array_agg(id) || array_agg(last_id)

-- name: tasks
-- The members by task, up to the number of messages that a page counts.
WITH
-- include: members
, by_word AS (
    SELECT task,
-- include: by_word
    FROM members GROUP BY task, word
)
SELECT
-- include: by_group
FROM by_word GROUP BY task ORDER BY min(id) LIMIT %(limit)s

-- name: siblings
-- Groups of members of one task with the same parents and the same children. Sets of ids are compared by the XOR of
-- their hashes, which needs no order. `singly`: each member is a group of its own.
WITH
-- include: members
,
-- include: waits
, above AS (
    SELECT child_id AS id, bit_xor(hashint8extended(parent_id, 1)) AS above FROM waits GROUP BY child_id
), below AS (
    SELECT parent_id AS id, bit_xor(hashint8extended(child_id, 1)) AS below FROM waits GROUP BY parent_id
), by_word AS (
    SELECT task, above, below, CASE WHEN %(singly)s THEN id ELSE 0 END AS own,
-- include: by_word
    FROM members LEFT JOIN above USING (id) LEFT JOIN below USING (id)
    GROUP BY task, above, below, own, word
)
SELECT
-- include: by_group
FROM by_word GROUP BY task, above, below, own ORDER BY min(id) LIMIT %(limit)s

-- name: between
-- The waits between some members: parent and child.
SELECT parent_id, child_id FROM pgqueue_dependency
WHERE flow_id = %(flow_id)s AND child_id = ANY (%(ids)s::bigint[]) AND parent_id = ANY (%(ids)s::bigint[])

-- name: between_tasks
-- The waits between tasks, parent and child, read from a few members of each task.
WITH near AS MATERIALIZED (
    SELECT p.parent_id AS other, NULL AS parent, s.task AS child
    FROM unnest(%(ids)s::bigint[], %(tasks)s::text[]) s (id, task) CROSS JOIN LATERAL (
        SELECT d.parent_id FROM pgqueue_dependency d
        WHERE d.flow_id = %(flow_id)s AND d.child_id = s.id LIMIT %(each)s) p
    UNION ALL
    SELECT c.child_id, s.task, NULL
    FROM unnest(%(ids)s::bigint[], %(tasks)s::text[]) s (id, task) CROSS JOIN LATERAL (
        SELECT d.child_id FROM pgqueue_dependency d WHERE d.parent_id = s.id LIMIT %(each)s) c
)
SELECT DISTINCT coalesce(near.parent, found.task), coalesce(near.child, found.task)
FROM near CROSS JOIN LATERAL (
    -- A parent or child may belong to another flow, which this flow waits for, or which waits for it. Leave it out.
    -- Compared as no index can: the index of flows would lead through all members of this one, for each row.
    SELECT m.task FROM pgqueue_message m WHERE m.id = near.other AND m.flow_id IS NOT DISTINCT FROM %(flow_id)s
    UNION ALL
    SELECT h.task FROM pgqueue_history h WHERE h.id = near.other AND h.flow_id IS NOT DISTINCT FROM %(flow_id)s
    LIMIT 1) found

-- name: last_parents
-- The id of the member that ended last, and the number of waits, up to the bound. For each member that ended, the
-- parent that was the last to end before the member began.
WITH ended AS MATERIALIZED (
    SELECT id, coalesce(started_at, finished_at) AS began_at, finished_at
    FROM pgqueue_history WHERE flow_id = %(flow_id)s LIMIT %(members)s
),
-- include: waits
, lasts AS (
    SELECT DISTINCT ON (c.id) c.id AS child, p.id AS parent
    FROM waits w JOIN ended p ON p.id = w.parent_id JOIN ended c ON c.id = w.child_id
    WHERE p.finished_at <= c.began_at
    ORDER BY c.id, p.finished_at DESC, p.id DESC
)
SELECT (SELECT id FROM ended ORDER BY finished_at DESC, id DESC LIMIT 1),
       (SELECT count(*) FROM waits),
       (SELECT json_object_agg(child, parent)::text FROM lasts)

-- name: times
-- The times at which ended messages were stored, began and ended.
SELECT id, task, outcome, created_at, started_at, finished_at FROM pgqueue_history WHERE id = ANY (%(ids)s::bigint[])

-- name: parents
-- The parents of a message with the lowest ids. The conditions are ranges: with constants, only the parents' ids would
-- be left of the order, and the planner might walk the index of parents through all flows.
SELECT found.*
FROM (
    SELECT parent_id AS id FROM pgqueue_dependency
    WHERE flow_id BETWEEN %(flow_id)s AND %(flow_id)s AND child_id BETWEEN %(id)s AND %(id)s
    ORDER BY flow_id, child_id, parent_id LIMIT %(limit)s) relative
CROSS JOIN LATERAL (
-- include: relative
) found
ORDER BY found.id

-- name: children
-- Some children of a message: no index has them in an order.
SELECT found.*
FROM (SELECT child_id AS id FROM pgqueue_dependency WHERE parent_id = %(id)s LIMIT %(limit)s) relative
CROSS JOIN LATERAL (
-- include: relative
) found
ORDER BY found.id

-- name: relative
    SELECT m.id, m.task,
-- include: member_word
    FROM pgqueue_message m WHERE m.id = relative.id
    UNION ALL
    SELECT h.id, h.task, h.outcome FROM pgqueue_history h WHERE h.id = relative.id
    LIMIT 1

-- name: missing
-- The parents that a message still waits for. None of them has a lower id than the parent that it watches.
SELECT m.id, m.task,
-- include: member_word
FROM pgqueue_blocked b
CROSS JOIN LATERAL (
    SELECT d.parent_id FROM pgqueue_dependency d
    WHERE d.flow_id BETWEEN b.flow_id AND b.flow_id AND d.child_id BETWEEN b.message_id AND b.message_id
      AND d.parent_id >= b.watched_id
    ORDER BY d.flow_id, d.child_id, d.parent_id
    LIMIT %(bound)s) d
CROSS JOIN LATERAL (
    SELECT id, task, state, lease_until FROM pgqueue_message WHERE id = d.parent_id LIMIT 1) m
WHERE b.message_id = %(id)s
ORDER BY m.id
LIMIT %(limit)s

-- name: on_failure
SELECT on_failure FROM pgqueue_blocked WHERE message_id = %(id)s

-- name: last_end
-- The parent that ended last before a moment, among a bounded number of the message's parents.
SELECT h.id, h.finished_at
FROM (
    SELECT parent_id FROM pgqueue_dependency
    WHERE flow_id = %(flow_id)s AND child_id = %(id)s LIMIT %(bound)s) d
CROSS JOIN LATERAL (
    SELECT id, finished_at FROM pgqueue_history
    WHERE id = d.parent_id AND finished_at >= (SELECT created_at FROM pgqueue_flow WHERE id = %(flow_id)s)
    LIMIT 1) h
WHERE h.finished_at <= %(before)s
ORDER BY h.finished_at DESC, h.id DESC
LIMIT 1
