-- name: lock
-- Each target has one writer, until it unlocks the target or its session ends. A row lock would need an open transaction, which would
-- hold back the stream itself.
SELECT pg_try_advisory_lock(
-- include: key_of_target
)

-- name: unlock
SELECT pg_advisory_unlock(
-- include: key_of_target
)

-- name: key_of_target
hashtextextended('pgqueue_export' || chr(31) || %(target)s, 0)

-- name: still
-- The statement fails if the session has ended, and has lost its lock.
SELECT

-- name: disown
-- Forget an export of another database, such as the original of this copy.
DELETE FROM pgqueue_export WHERE target = %(target)s AND database <> %(database)s

-- name: record
SELECT batch, txid, message_id, event_batch, event_position FROM pgqueue_export WHERE target = %(target)s

-- name: waiting
-- The number of rows that are not yet exported.
SELECT count(*) FROM pgqueue_history WHERE (txid, id) > (%s, %s)

-- name: note_history
INSERT INTO pgqueue_export (target, batch, txid, message_id, exported_at, database)
VALUES (%(target)s, %(batch)s, %(txid)s, %(id)s, clock_timestamp(), %(database)s)
ON CONFLICT (target) DO UPDATE
SET batch = excluded.batch, txid = excluded.txid, message_id = excluded.message_id, exported_at = excluded.exported_at

-- name: note_events
INSERT INTO pgqueue_export (target, batch, txid, message_id, event_batch, event_position, exported_at, database)
VALUES (%(target)s, -1, 0, 0, %(batch)s, %(position)s, clock_timestamp(), %(database)s)
ON CONFLICT (target) DO UPDATE
SET event_batch = excluded.event_batch, event_position = excluded.event_position, exported_at = excluded.exported_at

-- name: note_time
-- Note the time also if no row was new, and for an empty table.
INSERT INTO pgqueue_export (target, batch, txid, message_id, exported_at, database)
VALUES (%(target)s, -1, 0, 0, clock_timestamp(), %(database)s)
ON CONFLICT (target) DO UPDATE SET exported_at = excluded.exported_at

-- name: targets
SELECT target FROM pgqueue_export ORDER BY target

-- name: forget
DELETE FROM pgqueue_export WHERE target = %(target)s

-- name: held
-- The number of rows of history that are not below the cluster's horizon, and the transaction that holds them back.
-- This transaction may write in any database of the cluster.
WITH h AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon)
SELECT (SELECT count(*) FROM pgqueue_history WHERE txid >= (SELECT horizon FROM h)),
       CASE WHEN EXISTS (SELECT FROM pgqueue_history WHERE txid >= (SELECT horizon FROM h)) THEN coalesce(
           (SELECT format('the transaction of pid %%s (%%s) in the database %%s, open for %%s s', pid, application_name,
                          datname, round(extract(epoch FROM statement_timestamp() - xact_start)))
            FROM pg_stat_activity
            WHERE backend_xid::text::bigint = (SELECT horizon FROM h) & 4294967295 LIMIT 1),
           (SELECT format('the prepared transaction %%s in the database %%s, open for %%s s', gid, database,
                          round(extract(epoch FROM statement_timestamp() - prepared)))
            FROM pg_prepared_xacts
            WHERE transaction::text::bigint = (SELECT horizon FROM h) & 4294967295 LIMIT 1), '') ELSE '' END
