-- name: lead
-- The lock is taken in a statement of its own: the next one sees all that its last holder has committed. A
-- position must be durable before anybody reads it.
SELECT pg_try_advisory_xact_lock(hashtextextended('sequence', 'pgqueue_event'::regclass::oid::bigint)),
       current_setting('transaction_isolation'), set_config('synchronous_commit', 'on', true)

-- name: set_up
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: move
-- From the front, each time: whoever resumed behind it would skip events whose transactions commit later.
WITH head AS MATERIALIZED (
    SELECT greatest((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
                    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) AS position
), moved AS (
    DELETE FROM pgqueue_event_inbox
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM pgqueue_event_inbox ORDER BY id LIMIT %(limit)s))
    RETURNING *
)
INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at)
SELECT head.position + row_number() OVER (ORDER BY moved.id), topic, key, payload, metadata, created_at
FROM moved, head
