-- name: past
-- The first partition if it is full, and those whose drop was begun and interrupted. Positions are dropped
-- from the front only: the floor says that everything before it is gone.
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
-- By the BRIN index, in no time: nearly all of a partition's blocks are older, or the first one is not.
SELECT NOT EXISTS (SELECT FROM {table} WHERE created_at >=
-- include: retained_at
    - %(age)s::interval)

-- name: behind
-- Who has not yet passed a position.
SELECT name
FROM (
-- include: passed
) p
WHERE position < %(last)s::bigint
ORDER BY name

-- name: passed
-- All who must get every event, and the last position that each has passed. Subscriptions that follow are where
-- the dispatch is: the group without a name, of which nobody needs anything where there are none.
SELECT CASE "group" WHEN '' THEN 'the dispatch' ELSE 'group ' || "group" END AS name, min(position) AS position
FROM pgqueue_cursor
WHERE "group" <> '' OR EXISTS (SELECT FROM pgqueue_subscription)
GROUP BY "group"
UNION ALL
SELECT 'subscription ' || name, position FROM pgqueue_subscription WHERE NOT follows
UNION ALL
-- A target of another database, or beyond the end of the log, tells of another log: what it says counts for nothing.
SELECT 'export ' || target, CASE WHEN event_position <= greatest(
    (SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
    (SELECT position FROM pgqueue_log_floor WHERE log = 'event')) AND database =
-- include: identity
    THEN event_position ELSE 0 END
FROM pgqueue_export
WHERE %(exports_first)s
UNION ALL
SELECT 'a first export', 0 WHERE %(exports_first)s AND NOT EXISTS (SELECT FROM pgqueue_export)
