-- name: beat
INSERT INTO pgqueue_reader AS r (id, host, pid, "group", last_seen, notify_until)
VALUES (%(id)s, %(host)s, %(pid)s, %(group)s, statement_timestamp(), statement_timestamp() + %(notify_for)s::interval)
ON CONFLICT (id) DO UPDATE SET last_seen = excluded.last_seen, notify_until = excluded.notify_until

-- name: retire
DELETE FROM pgqueue_reader WHERE id = %(id)s

-- name: forget
DELETE FROM pgqueue_reader WHERE last_seen < statement_timestamp() - %(silent_for)s::interval
