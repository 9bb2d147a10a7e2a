-- name: lead
-- A statement of its own takes the lock: the next statement sees all events that the last holder has committed. No row:
-- another session has the lock. It is the lock of a row, for which a role needs a right. A position must be durable
-- before a session reads it.
SELECT current_setting('transaction_isolation'), set_config('synchronous_commit', 'on', true)
FROM pgqueue_lock
WHERE name = 'sequence'
FOR UPDATE SKIP LOCKED

-- name: set_up
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: move
-- Each move begins at the front: if it resumed behind the last event, it would skip events of late commits. The next
-- position follows the floor, too: after retention has dropped every partition, max(position) alone would begin at 1 again.
WITH head AS MATERIALIZED (
    SELECT greatest((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
                    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) AS position
), moved AS (
    DELETE FROM pgqueue_event_inbox
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM pgqueue_event_inbox
        WHERE id BETWEEN %(first)s::bigint AND %(last)s::bigint AND id <> ALL (%(aside)s::bigint[])
        ORDER BY id LIMIT %(limit)s))
    RETURNING *
)
INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at)
SELECT head.position + row_number() OVER (ORDER BY moved.id), topic, key, payload, metadata, created_at
FROM moved, head
