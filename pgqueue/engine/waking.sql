-- name: wake
-- Make messages ready that wait for a signal which no step has taken. The statement follows the one that took the bells:
-- a signal that it does not see will ring again, and so will a message that is about to wait. Rows that others have
-- locked are left to the duty.
WITH wanted AS MATERIALIZED (
    SELECT id FROM unnest(%(ids)s::bigint[]) AS rung (id)
    WHERE
-- include: has_come
    LIMIT %(limit)s
), chosen AS MATERIALIZED (
    SELECT m.id
    FROM wanted CROSS JOIN LATERAL (
        SELECT m.id, m.state, m.errors, m.attempt, m.metadata FROM pgqueue_message m WHERE m.id = wanted.id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) m
    WHERE
-- include: waits
), changed AS (
    UPDATE pgqueue_message
    SET state = 'ready',
        run_at = statement_timestamp(),
        governed =
-- include: governed_anew
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, channel, key, state, governed
),
-- include: told
SELECT channel, key, governed, (SELECT count(*) FROM told) FROM changed

-- name: waits
-- A condition on "… m": the message has suspended. After a failed run it waits for its backoff, and then finds the signal.
-- It also waits after a hand-back by a worker that does not know its task or its arguments.
m.state = 'held'
OR m.state = 'scheduled' AND (m.errors -> -1 ->> 'attempt') IS DISTINCT FROM m.attempt::text
   AND m.metadata #> '{handed_back,times}' IS NULL

-- name: has_come
-- A condition on "… rung (id)": the message waits for a signal that is here. A step that the code no longer has does not
-- count: no run would take its signal, and the message would be woken again and again.
(SELECT count(*) FROM (
     SELECT FROM pgqueue_step s
     WHERE s.message_id = rung.id AND s.state = 'waiting' AND NOT s.unvisited
       AND (SELECT count(*) FROM (
                SELECT FROM pgqueue_signal g
                WHERE g.message_id = rung.id AND g.name = ANY (s.signals) AND g.taken_by IS NULL
                LIMIT 1) signal) > 0
     LIMIT 1) step) > 0

-- name: missed
-- Messages that were locked when their bell was taken.
SELECT m.channel, m.id
FROM (SELECT DISTINCT message_id FROM pgqueue_signal WHERE taken_by IS NULL) rung (id)
CROSS JOIN LATERAL (SELECT id, channel, state, errors, attempt, metadata FROM pgqueue_message WHERE id = rung.id LIMIT 1) m
WHERE (
-- include: waits
) AND
-- include: has_come
LIMIT %(limit)s

-- name: ring
INSERT INTO pgqueue_bell (channel, woken) VALUES (%(channel)s, %(ids)s::bigint[])

-- name: forget_strays
-- Signals whose message ended before they were committed: nothing will take them.
DELETE FROM pgqueue_signal
WHERE id = ANY (ARRAY(
    SELECT g.id FROM pgqueue_signal g
    WHERE g.taken_by IS NULL AND g.sent_at < statement_timestamp() - interval '1 minute'
      AND (SELECT count(*) FROM (SELECT FROM pgqueue_message m WHERE m.id = g.message_id LIMIT 1) live) = 0
    LIMIT %(limit)s))
