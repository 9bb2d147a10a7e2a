-- The stream reads history in the order of (txid, id), and only below the horizon: the oldest transaction that
-- is still open. Every transaction below it has ended, so a readable range never changes. A reader that follows
-- only the ids or the visible rows misses the rows of a transaction that commits late.

-- name: horizon
pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- name: server
-- The next transaction's number; the highest number that retention has removed, the floor; and whether rows or the floor
-- are later, since they were restored from another cluster. A later floor would hide what retention removes here.
SELECT following, floor, floor >= following OR EXISTS (SELECT FROM pgqueue_history WHERE txid >= following)
FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS following,
             coalesce((SELECT position FROM pgqueue_log_floor WHERE log = 'history'), 0) AS floor) here

-- name: last
SELECT txid, id FROM pgqueue_history
WHERE txid <
-- include: horizon
ORDER BY txid DESC, id DESC
LIMIT 1

-- name: nth
-- The last row of a batch with a given number of rows.
SELECT txid, id FROM pgqueue_history
WHERE (txid, id) > (%(txid)s, %(id)s) AND (txid, id) <= (%(last_txid)s, %(last_id)s)
ORDER BY txid, id
OFFSET %(count)s - 1 LIMIT 1

-- name: is_whole
-- Whether a row is the last one of its transaction.
SELECT NOT EXISTS (SELECT FROM pgqueue_history WHERE txid = %(txid)s AND id > %(id)s)

-- name: before_time
-- The transaction before the first one that wrote a row which ended at this time or later; else the last one. One
-- statement sees one snapshot: a row that ends meanwhile is after the position.
SELECT coalesce(
    (SELECT min(txid) - 1 FROM pgqueue_history WHERE finished_at >= %(time)s AND txid <
-- include: horizon
    ),
    (SELECT max(txid) FROM pgqueue_history WHERE txid <
-- include: horizon
    ))

-- name: size
-- The number of rows of a batch.
SELECT count(*) FROM pgqueue_history
WHERE (txid, id) > (%(txid)s, %(id)s) AND (txid, id) <= (%(last_txid)s, %(last_id)s)

-- name: renumber
-- The operator runs this after a restore.
WITH lowered AS (
    UPDATE pgqueue_log_floor SET position = %(following)s - 1 WHERE log = 'history' AND position >= %(following)s
)
UPDATE pgqueue_history
SET txid = pg_current_xact_id()::text::bigint,
    -- A row may be older than the constraints, which an UPDATE of it must fulfil.
    run_at = greatest(least(run_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
    created_at = greatest(least(created_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
    expires_at = CASE WHEN expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN expires_at END
WHERE txid >= %(following)s
