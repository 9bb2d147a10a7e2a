-- name: of
SELECT
-- include: identity

-- name: renew
-- Retention's floor of history may be a transaction's number of another cluster: it would hide what is removed here.
WITH lowered AS (
    UPDATE pgqueue_log_floor SET position = pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1
    WHERE log = 'history' AND position >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
)
INSERT INTO pgqueue_identity DEFAULT VALUES
ON CONFLICT (is_only) DO UPDATE SET id = gen_random_uuid()
RETURNING 1

-- name: of_history
SELECT CASE WHEN isfinite(finished_at) THEN (extract(epoch FROM finished_at) * 1000000)::bigint END
FROM pgqueue_history
WHERE txid = %(txid)s AND id = %(id)s

-- name: of_event
SELECT CASE WHEN isfinite(created_at) THEN (extract(epoch FROM created_at) * 1000000)::bigint END
FROM pgqueue_event
WHERE position = %(position)s
