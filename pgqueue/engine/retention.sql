-- name: advance
-- The time moves by a day an hour at most, and by a part of that if the duty has run since. It moves at once if history or
-- the log has rows of each passed day: then the clock has shown these days. After the server's clock was set back, the
-- time goes back, too.
WITH RECURSIVE before AS (
    SELECT upto FROM pgqueue_duty WHERE name = 'retention'
), seen AS (
    SELECT upto AS at FROM pgqueue_duty WHERE name = 'retention'
    UNION ALL
    SELECT at + interval '1 day' FROM seen
    WHERE at < statement_timestamp() - interval '1 day'
      AND (EXISTS (SELECT FROM pgqueue_history WHERE finished_at >= at AND finished_at < at + interval '1 day')
           OR EXISTS (SELECT FROM pgqueue_event WHERE created_at >= at AND created_at < at + interval '1 day'))
)
UPDATE pgqueue_duty
SET upto = least(
    statement_timestamp(),
    greatest(
        upto + CASE WHEN ran_at <= statement_timestamp() THEN least(interval '1 day', 24 * (statement_timestamp() - ran_at))
                    ELSE interval '1 day' END,
        (SELECT max(at) FROM seen)))
WHERE name = 'retention'
RETURNING extract(epoch FROM statement_timestamp() - (SELECT upto FROM before))::float8,
          extract(epoch FROM statement_timestamp() - upto)::float8

-- name: windows
-- Each retention that is shorter than the longest one, or than a day, since partitions are whole days. It has the
-- window of time with rows that it may delete. The longest retention is included, too, while a flow keeps older
-- partitions. If the rules have changed, or the clock was set back, the window begins at the oldest row again.
WITH
-- include: kept
, rules AS (
    SELECT max(keep) AS longest,
           md5(string_agg(concat_ws(' ', outcome, keep, channel), ', ' ORDER BY outcome, channel NULLS FIRST)) AS digest
    FROM kept
)
SELECT k.keep, rules.digest, coalesce(p.until, 'epoch'), 
-- include: retained_at
       - k.keep
FROM rules CROSS JOIN (SELECT DISTINCT keep FROM kept) k
LEFT JOIN pgqueue_purged p
    ON p.keep = k.keep AND p.rules = rules.digest AND p.until <=
-- include: retained_at
       - k.keep
WHERE k.keep < rules.longest OR k.keep < interval '1 day'
   OR EXISTS (SELECT FROM pgqueue_flow WHERE ended_at IS NULL AND created_at <
-- include: retained_at
       - rules.longest)
ORDER BY k.keep

-- name: reach
-- The end of the next part of a window: rows lie roughly in the order of their times.
SELECT count(*), max(finished_at) + interval '1 microsecond'
FROM (
    SELECT finished_at FROM pgqueue_history
    WHERE finished_at >= %(after)s AND finished_at < %(before)s
    LIMIT %(reach)s) s

-- name: first_after
-- The earliest end among rows that are not exported yet.
SELECT min(finished_at) FROM pgqueue_history
WHERE finished_at >= %(after)s AND finished_at < %(before)s AND (txid, id) > (%(txid)s::bigint, %(id)s::bigint)

-- name: purge
-- A row that is not exported may have been written later than its end. It stays, and is dropped with its day. So do
-- rows that a flow which has not ended may need: its members, and duplicates that its messages wait for.
WITH
-- include: kept
, over AS MATERIALIZED (
    SELECT h.id
    FROM pgqueue_history h
    LEFT JOIN kept own ON own.channel = h.channel AND own.outcome = h.outcome
    LEFT JOIN kept others ON others.channel IS NULL AND others.outcome = h.outcome
    WHERE h.finished_at >= %(after)s AND h.finished_at < %(before)s
      AND coalesce(own.keep, others.keep) <= %(keep)s
      AND (h.txid, h.id) <= (%(txid)s::bigint, %(id)s::bigint)
      AND (h.flow_id IS NULL OR NOT EXISTS (SELECT FROM pgqueue_flow f WHERE f.id = h.flow_id AND f.ended_at IS NULL))
      AND (SELECT count(*) FROM (
               SELECT FROM pgqueue_dependency d CROSS JOIN LATERAL (
                   SELECT FROM pgqueue_flow f WHERE f.id = d.flow_id AND f.ended_at IS NULL LIMIT 1) living
               WHERE d.parent_id = h.id LIMIT 1) waited) = 0
      AND
-- include: within
    LIMIT %(limit)s
    FOR UPDATE OF h SKIP LOCKED
), gone AS (
    DELETE FROM pgqueue_history h
    WHERE h.id = ANY (ARRAY(SELECT id FROM over)) AND h.finished_at >= %(after)s AND h.finished_at < %(before)s
    RETURNING txid
), raised AS (
    INSERT INTO pgqueue_log_floor (log, position)
    SELECT 'history', max(txid) FROM gone HAVING count(*) > 0
    ON CONFLICT (log) DO UPDATE SET position = greatest(pgqueue_log_floor.position, excluded.position)
)
SELECT count(*) FROM gone

-- name: note
-- Store the time up to which all rows of the window are deleted; times under other rules are void.
WITH void AS (
    DELETE FROM pgqueue_purged WHERE rules <> %(rules)s
)
INSERT INTO pgqueue_purged (keep, rules, until)
VALUES (%(keep)s, %(rules)s, %(until)s)
ON CONFLICT (keep) DO UPDATE SET rules = excluded.rules, until = excluded.until
