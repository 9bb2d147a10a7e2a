-- name: targets
-- An export of another database counts as 0, for example if this database is its copy. An export with transaction
-- numbers that this cluster has not reached is of a later state, and counts as 0, too.
SELECT target,
       CASE WHEN txid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint AND database =
-- include: identity
       THEN txid ELSE 0 END AS txid,
       message_id, extract(epoch FROM statement_timestamp() - exported_at)::float8,
-- include: exported_event
FROM pgqueue_export
ORDER BY 2, 3, target

-- name: behind
-- The statement uses the index of streams.
SELECT (SELECT count(*) FROM (
            SELECT FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint) LIMIT %(limit)s) s),
       coalesce((
            SELECT extract(epoch FROM statement_timestamp() - finished_at)::float8
            FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint)
            ORDER BY txid, id LIMIT 1), 0)

-- name: events_behind
-- Events that retention has removed do not count.
SELECT greatest(b.head - greatest(c.position, b.floor), 0), greatest(
-- include: event_waited
    , 0)
FROM (SELECT %(position)s::bigint AS position) c
CROSS JOIN (
-- include: bounds
) b
