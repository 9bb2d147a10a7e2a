-- name: past
-- The first partition if it is full, and partitions whose drop was interrupted. Positions are dropped from the front
-- only: the floor means that all events before it are deleted.
WITH
-- include: parts
, first AS (
    SELECT min(substring(c.relname FROM '[0-9]+$')::bigint) AS number
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = %(table)s::regclass AND NOT i.inhdetachpending AND c.relname ~ %(pattern)s
)
-- include: past_parts
, first
WHERE is_marked OR CASE
    WHEN is_pending OR NOT is_attached THEN false
    ELSE substring(relname FROM '[0-9]+$')::bigint = first.number AND (first.number + 1) * %(size)s <= %(head)s + 1
    END
ORDER BY NOT is_pending, substring(relname FROM '[0-9]+$')::bigint

-- name: is_older
-- The BRIN index answers this at once: nearly all blocks of a partition are older, or already the first one is not.
SELECT NOT EXISTS (SELECT FROM {table} WHERE created_at >=
-- include: retained_at
    - %(age)s::interval)

-- name: behind
-- The readers that have not passed a position yet.
SELECT name
FROM (
-- include: passed
) p
WHERE position < %(last)s::bigint
ORDER BY name

-- name: passed
-- The readers that must get every event, and the last position that each has passed. Subscriptions that follow have
-- the position of the dispatch, the group without a name. Without any subscription the dispatch does not count.
SELECT CASE "group" WHEN '' THEN 'the dispatch' ELSE 'group ' || "group" END AS name, min(position) AS position
FROM pgqueue_cursor
WHERE "group" <> '' OR EXISTS (SELECT FROM pgqueue_subscription)
GROUP BY "group"
UNION ALL
-- A webhook that is not enabled skips these events.
SELECT 'subscription ' || name, position FROM pgqueue_subscription
WHERE NOT follows AND name NOT IN (SELECT subscription_id FROM pgqueue_webhook WHERE NOT enabled)
UNION ALL
SELECT 'export ' || target,
-- include: exported_event
FROM pgqueue_export
WHERE %(exports_first)s
UNION ALL
SELECT 'a first export', 0 WHERE %(exports_first)s AND NOT EXISTS (SELECT FROM pgqueue_export)
