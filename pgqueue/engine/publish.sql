-- Publishers only insert. The sequencer gives positions, in the order of commits. PostgreSQL refuses to prepare a
-- transaction that has notified. A publisher that prepares its transaction inserts into pgqueue_event_inbox itself.

-- name: publish
SELECT pgqueue_publish_v1(%(topic)s, %(key)s, %(payload)s::jsonb, %(metadata)s::jsonb)

-- name: publish_if
-- The function in FROM locks and looks before the event is stored.
SELECT u.number, u.last, u.head, CASE WHEN u.number IS NULL
       THEN pgqueue_publish_v1(%(topic)s, %(key)s, %(payload)s::jsonb, %(metadata)s::jsonb) END
FROM pgqueue_unmet_condition_v1(
    %(topic)s, %(key)s, %(topics)s::text[], %(keys)s::text[], %(positions)s::bigint[], %(are_last)s::boolean[]) u

-- name: forget_locks
-- A lock that a publisher holds is in use, whatever its row says so far.
DELETE FROM pgqueue_append_lock
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM pgqueue_append_lock
    WHERE used_at < statement_timestamp() - %(unused_for)s::interval
    FOR UPDATE SKIP LOCKED))

-- name: unused_locks
SELECT ctid::text, topic, key FROM pgqueue_append_lock
WHERE used_at < statement_timestamp() - %(unused_for)s::interval
FOR UPDATE SKIP LOCKED

-- name: copy
COPY pgqueue_event_inbox (topic, key, payload, metadata) FROM STDIN

-- name: begun
-- Return whether this role has the right to COPY. If so, idle readers are notified when the transaction commits.
SELECT may_copy, CASE WHEN may_copy THEN pgqueue_tell_readers_v1() END
FROM (SELECT pgqueue_stores_events_v1() AS may_copy OFFSET 0) rights

-- name: publish_each
-- Store events in their order.
SELECT count(pgqueue_publish_v1(topic, key, payload::jsonb, metadata::jsonb))
FROM (SELECT * FROM unnest(%(topics)s::text[], %(keys)s::text[], %(payloads)s::text[], %(metadata)s::text[])
          WITH ORDINALITY AS e (topic, key, payload, metadata, number)
      ORDER BY number) sorted

-- name: tell
SELECT pgqueue_tell_readers_v1()

-- name: without_position
-- For assertions of tests: the whole inbox is read.
SELECT 0, topic, key, payload::text, metadata::text, created_at
FROM pgqueue_event_inbox e
WHERE {condition}
ORDER BY id
