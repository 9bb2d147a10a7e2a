-- name: state
-- A publication without the inbox announces no events: the inbox was made again, or the publication is not pgqueue's.
-- A role may not see sync_state of pg_stat_replication. '*' matches all connections that follow the WAL.
SELECT current_setting('wal_level'), EXISTS (SELECT FROM pg_publication WHERE pubname = %(publication)s),
       EXISTS (SELECT FROM pg_publication p CROSS JOIN LATERAL pg_get_publication_tables(p.pubname::text) t
               WHERE p.pubname = %(publication)s AND p.pubinsert AND t.relid = 'pgqueue_event_inbox'::regclass),
       (SELECT extract(epoch FROM statement_timestamp() - created_at)::float8
        FROM pgqueue_event_inbox ORDER BY id LIMIT 1),
       position('*' IN current_setting('synchronous_standby_names')) > 0,
       s.slot_name IS NOT NULL, coalesce(s.database = current_database() AND s.plugin = 'pgoutput', false),
       s.database, s.plugin, s.active, s.active_pid, coalesce(s.wal_status = 'lost', false),
       coalesce(s.wal_status = 'unreserved', false), pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn)::bigint,
       pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint
FROM (VALUES (%(slot)s)) asked (name) LEFT JOIN pg_replication_slots s ON s.slot_name = asked.name

-- name: make_publication
-- Only the ids: they tell that an event was published. Deletes are left out, since each moved row is deleted.
CREATE PUBLICATION {name} FOR TABLE pgqueue_event_inbox (id) WITH (publish = 'insert')

-- name: drop_publication
DROP PUBLICATION {name}

-- name: make_slot
SELECT pg_create_logical_replication_slot(%(slot)s, 'pgoutput')

-- name: drop_slot
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s

-- name: take_over
SELECT pg_terminate_backend(active_pid)
FROM pg_replication_slots
WHERE slot_name = %(slot)s AND database = current_database() AND active_pid IS NOT NULL

-- name: unseen
-- The stream has the lower 32 bits of a transaction's number. The whole number is the one nearest to the newest
-- transaction's, before or behind it.
SELECT xid
FROM (
    SELECT xid, newest - ((newest - xid + 2147483648) & 4294967295) + 2147483648 AS number
    FROM unnest(%(xids)s::bigint[]) AS announced (xid),
         (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS newest) s) each
WHERE NOT pg_visible_in_snapshot(number::text::xid8, pg_current_snapshot())
