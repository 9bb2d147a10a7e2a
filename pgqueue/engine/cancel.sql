-- name: cancel
-- A message that is not running ends here. A running one is only marked: deleting its row while its
-- task runs would break limits and order, so the settle or the rescue ends it. A dead letter is left as
-- it is: only a discard ends it for good, which takes another permission.
--
-- The worker that runs a marked message is notified by its id, once for all of its messages.
WITH chosen AS MATERIALIZED (
    SELECT id, state
    FROM pgqueue_message
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
), gone AS MATERIALIZED (
    SELECT * FROM pgqueue_end_v2(ARRAY(SELECT id FROM chosen WHERE state NOT IN ('running', 'dead')), 'cancelled')
), asked AS (
    UPDATE pgqueue_message
    SET cancel_requested_at = coalesce(cancel_requested_at, statement_timestamp())
    WHERE id = ANY (ARRAY(SELECT id FROM chosen WHERE state = 'running'))
    RETURNING id, worker_id
), notified AS (
    SELECT pg_notify(pgqueue_notifications_v1() || '_cancels', worker_id::text)
    FROM (SELECT DISTINCT worker_id FROM asked) w
), became AS (
    SELECT id, channel, key, governed, flow_id, outcome AS word, NULL AS fault FROM gone
),
-- include: heard
SELECT id, word, (SELECT count(*) FROM told) FROM became
UNION ALL
SELECT id, 'asked', (SELECT count(*) FROM notified) FROM asked
