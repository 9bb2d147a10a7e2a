-- name: lock
-- One writer for each target, until its session ends. A row lock would need an open transaction, and that would
-- hold back the stream itself.
SELECT pg_try_advisory_lock(hashtextextended('pgqueue_export' || chr(31) || %(target)s, 0))

-- name: still
-- An error if the session has ended, and the lock with it.
SELECT

-- name: record
SELECT batch, txid, message_id, event_batch, event_position FROM pgqueue_export WHERE target = %(target)s

-- name: waiting
-- The rows that are to be exported.
SELECT count(*) FROM pgqueue_history WHERE (txid, id) > (%s, %s)

-- name: note_history
INSERT INTO pgqueue_export (target, batch, txid, message_id, exported_at)
VALUES (%(target)s, %(batch)s, %(txid)s, %(id)s, clock_timestamp())
ON CONFLICT (target) DO UPDATE
SET batch = excluded.batch, txid = excluded.txid, message_id = excluded.message_id, exported_at = excluded.exported_at

-- name: note_events
INSERT INTO pgqueue_export (target, batch, txid, message_id, event_batch, event_position, exported_at)
VALUES (%(target)s, -1, 0, 0, %(batch)s, %(position)s, clock_timestamp())
ON CONFLICT (target) DO UPDATE
SET event_batch = excluded.event_batch, event_position = excluded.event_position, exported_at = excluded.exported_at

-- name: note_time
-- Even if there was nothing new, and nothing at all.
INSERT INTO pgqueue_export (target, batch, txid, message_id, exported_at)
VALUES (%(target)s, -1, 0, 0, clock_timestamp())
ON CONFLICT (target) DO UPDATE SET exported_at = excluded.exported_at

-- name: targets
SELECT target FROM pgqueue_export ORDER BY target

-- name: forget
DELETE FROM pgqueue_export WHERE target = %(target)s
