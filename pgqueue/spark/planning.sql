-- name: prepare
-- include: no_timeouts

-- name: relations
-- The tables that hold the rows of a relation: the relation itself, or its partitions. A partition of
-- history is named by its UTC day: days before `since` and after `until` are left out, and `is_cut` tells
-- of a day that is not wanted as a whole.
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
-- What a later transaction must know to see of history what this one sees. Where rows seem to come from
-- the future, the tables were restored from another cluster: then transactions tell nothing.
SELECT pg_current_snapshot()::text,
       EXISTS (SELECT FROM pgqueue_history
               WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
