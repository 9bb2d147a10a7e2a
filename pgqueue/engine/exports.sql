-- name: targets
-- One whose transaction numbers this cluster has not reached belongs to another cluster, or to a later state
-- of this one: what it says counts for nothing.
SELECT target,
       CASE WHEN txid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN txid ELSE 0 END AS txid,
       message_id, extract(epoch FROM statement_timestamp() - exported_at)::float8
FROM pgqueue_export
ORDER BY 2, 3, target

-- name: events_passed
-- Where the log is not as long as a target says, that tells of another log: it counts for nothing.
SELECT coalesce(min(CASE WHEN event_position <= b.head THEN event_position ELSE 0 END), 0)
FROM pgqueue_export, (
    SELECT greatest((SELECT position FROM pgqueue_event ORDER BY position DESC LIMIT 1),
                    (SELECT position FROM pgqueue_log_floor WHERE log = 'event'), 0) AS head) b

-- name: behind
-- By the index that streams read.
SELECT (SELECT count(*) FROM (
            SELECT FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint) LIMIT %(limit)s) s),
       coalesce((
            SELECT extract(epoch FROM statement_timestamp() - finished_at)::float8
            FROM pgqueue_history WHERE (txid, id) > (%(txid)s::bigint, %(id)s::bigint)
            ORDER BY txid, id LIMIT 1), 0)
