-- name: prepare
-- include: no_timeouts

-- name: relations
-- The tables that hold the rows of a relation: the relation itself, or its partitions. The name of a
-- partition of history has its UTC day. Days before `since` and after `until` are left out. `is_cut` marks
-- a day that is selected only in part.
SELECT n.nspname, c.relname, c.oid, pg_relation_filenode(c.oid), d.day,
       pg_relation_size(c.oid) / current_setting('block_size')::bigint,
       coalesce(d.day < %(since)s::timestamptz OR d.day + interval '24 hours' > %(until)s::timestamptz,
                %(since)s::timestamptz IS NOT NULL OR %(until)s::timestamptz IS NOT NULL)
FROM pg_class parent
LEFT JOIN pg_inherits i ON i.inhparent = parent.oid
JOIN pg_class c ON c.oid = coalesce(i.inhrelid, parent.oid)
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.relname ~ '^pgqueue_history_[0-9]{8}$'
                THEN to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC' END AS day) d
WHERE parent.oid = %(relation)s::regclass
  AND c.relkind = 'r' AND NOT coalesce(i.inhdetachpending, false)
  AND (d.day + interval '24 hours' > %(since)s::timestamptz) IS NOT FALSE
  AND (d.day < %(until)s::timestamptz) IS NOT FALSE
ORDER BY c.relname

-- name: snapshot
-- The snapshot by which a later transaction selects the rows of history that this one sees. If rows come
-- from a future transaction, the tables were restored from another cluster. Then the snapshot is useless.
SELECT pg_current_snapshot()::text,
       EXISTS (SELECT FROM pgqueue_history
               WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
