-- name: targets
-- One whose transaction numbers this cluster has not reached belongs to another cluster, or to a later state
-- of this one: what it says counts for nothing.
SELECT target,
       CASE WHEN txid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN txid ELSE 0 END AS txid,
       message_id, extract(epoch FROM statement_timestamp() - exported_at)::float8
FROM pgqueue_export
ORDER BY 2, 3, target

-- name: behind
-- By the index that streams read.
SELECT (SELECT count(*) FROM (
            SELECT FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint) LIMIT %(limit)s) s),
       coalesce((
            SELECT extract(epoch FROM statement_timestamp() - finished_at)::float8
            FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint)
            ORDER BY txid, id LIMIT 1), 0)
