-- name: still
-- Only messages before their deadline: the duty that expires held messages may be late, and a message past
-- its deadline counts as expired already.
chosen AS MATERIALIZED (
    SELECT id
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[]) AND state = 'held' AND lease_until > statement_timestamp()
    ORDER BY id
    FOR UPDATE
)

-- name: commit
WITH
-- include: still
, changed AS (
    UPDATE pgqueue_message
    SET state = CASE WHEN run_at > statement_timestamp() THEN 'scheduled' ELSE 'ready' END,
        lease_until = NULL,
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, key, state, governed, run_at
),
-- include: told
, later AS (
    SELECT pgqueue_tell_promoter_v1(min(run_at)) FROM changed WHERE state = 'scheduled' HAVING count(*) > 0
)
SELECT id, (SELECT count(*) FROM told), (SELECT count(*) FROM later) FROM changed

-- name: abandon
WITH
-- include: still
, gone AS MATERIALIZED (
    SELECT * FROM pgqueue_end_v2(ARRAY(SELECT id FROM chosen), 'cancelled')
), became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, (SELECT count(*) FROM told) FROM became

-- name: extend
WITH
-- include: still
UPDATE pgqueue_message
SET lease_until = statement_timestamp() + %(hold)s::interval
WHERE id = ANY (ARRAY(SELECT id FROM chosen))
RETURNING id
