-- name: beat
-- While the WAL feed runs, it notifies idle readers, so that publishers need not. A slot that is being made is active,
-- too, but not confirmed.
INSERT INTO pgqueue_reader AS r (id, host, pid, "group", last_seen, notify_until, feed_until)
SELECT %(id)s, %(host)s, %(pid)s, %(group)s, statement_timestamp(),
       CASE WHEN NOT is_fed THEN until END, CASE WHEN is_fed THEN until END
FROM (SELECT statement_timestamp() + %(notify_for)s::interval AS until,
             CASE WHEN %(slot)s::text IS NULL THEN false
                  ELSE EXISTS (SELECT FROM pg_replication_slots
                               WHERE slot_name = %(slot)s::text AND database = current_database() AND active
                                 AND confirmed_flush_lsn IS NOT NULL) END AS is_fed) wish
ON CONFLICT (id) DO UPDATE
SET last_seen = excluded.last_seen, notify_until = excluded.notify_until, feed_until = excluded.feed_until

-- name: tell
SELECT pg_notify(pgqueue_notifications_v1() || '_events', '')
WHERE EXISTS (SELECT FROM pgqueue_reader WHERE feed_until > clock_timestamp())

-- name: retire
DELETE FROM pgqueue_reader WHERE id = %(id)s

-- name: forget
DELETE FROM pgqueue_reader WHERE last_seen < statement_timestamp() - %(silent_for)s::interval

-- name: over
SELECT ctid::text, id FROM pgqueue_reader WHERE last_seen < statement_timestamp() - %(silent_for)s::interval FOR UPDATE SKIP LOCKED
