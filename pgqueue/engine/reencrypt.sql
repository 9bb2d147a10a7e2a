-- Encrypted columns get new values in place, in any state of their messages: a later settle moves the row with the new
-- values. No other column changes, so no fence is needed. A column that was changed since it was read, by a checkpoint
-- or a debounced call, is left as it is.

-- name: live
SELECT id, NULL::timestamptz, task,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN payload::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR progress ->> '@' = 'encrypted' THEN progress::text END,
       NULL,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN (
           SELECT jsonb_agg(p)::text FROM (
               SELECT 'steps' AS part, row_number() OVER (ORDER BY s.number) AS place, s.name AS key, s.kind, s.result AS value
               FROM pgqueue_step s WHERE s.message_id = m.id
               UNION ALL
               SELECT 'signals', row_number() OVER (ORDER BY s.id), s.id::text, s.name, s.payload
               FROM pgqueue_signal s WHERE s.message_id = m.id
               UNION ALL
-- include: logs
               ) v
           CROSS JOIN LATERAL (
-- include: parts
           ) p) END
FROM (
    SELECT *, row_number() OVER (ORDER BY id) AS place,
           sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(progress), 0) + logged) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, task, payload, progress,
-- include: logged
                 AS logged
          FROM pgqueue_message t
          WHERE id > %(after)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
          ORDER BY id LIMIT %(limit)s) s) m
WHERE bytes <= %(bytes)s OR place = 1
ORDER BY id

-- name: logs
-- The log lines of the runs of a message `m`.
SELECT 'logs', row_number() OVER (ORDER BY r.attempt), r.attempt::text, '', r.lines
FROM pgqueue_run_log r WHERE r.message_id = m.id

-- name: logged
-- The bytes of the log lines of a message `t`.
(SELECT coalesce(sum(pg_column_size(r.lines)), 0) FROM pgqueue_run_log r WHERE r.message_id = t.id)

-- name: of_logs
-- A run that stores further lines meanwhile stores them under its worker's first key.
of_logs AS (
    UPDATE pgqueue_run_log r
    SET lines = n.value
    FROM made JOIN free USING (id) CROSS JOIN LATERAL
-- include: new_parts
    WHERE n.part = 'logs' AND r.message_id = made.id AND r.attempt = n.key::int AND md5(r.lines::text) = n.digest
)

-- name: parts
-- The values of a step, or of a signal, that an encrypted task encrypts. Of a step that waits for other messages, only
-- their results; of a step that has taken a signal, the payload; nothing of events.
SELECT v.part, v.place, v.key, v.kind, md5(v.value::text) AS digest, f.path, (v.value #> f.path[2:])::text AS text
FROM (SELECT CASE WHEN v.part = 'signals' THEN ARRAY['payload']
                  WHEN v.part = 'logs' THEN ARRAY['lines']
                  WHEN v.kind = 'signal' THEN ARRAY['result', 'payload']
                  ELSE ARRAY['result'] END AS path) f
WHERE v.value #> f.path[2:] IS NOT NULL
  AND CASE WHEN v.part = 'logs' THEN true
           WHEN v.part = 'signals' THEN NOT starts_with(v.kind, '@')
           WHEN v.kind = 'event' THEN false
           WHEN v.kind = 'call' THEN v.value ? 'returned' OR v.value ->> '@' = 'encrypted'
           ELSE true END

-- name: history
-- SQL may have stored steps of another form: they are left as they are.
SELECT id, finished_at, task,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN payload::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR progress ->> '@' = 'encrypted' THEN progress::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR result ->> '@' = 'encrypted' THEN result::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN (
           SELECT jsonb_agg(p)::text FROM (
               SELECT 'steps' AS part, e.place, e.value ->> 'name' AS key, e.value ->> 'kind' AS kind, e.value -> 'result' AS value
               FROM jsonb_array_elements(CASE jsonb_typeof(steps -> 'steps') WHEN 'array' THEN steps -> 'steps' END)
                    WITH ORDINALITY e (value, place)
               UNION ALL
               SELECT 'signals', e.place, e.value ->> 'id', e.value ->> 'name', e.value -> 'payload'
               FROM jsonb_array_elements(CASE jsonb_typeof(steps -> 'signals') WHEN 'array' THEN steps -> 'signals' END)
                    WITH ORDINALITY e (value, place)
               UNION ALL
-- include: logs
               ) v
           CROSS JOIN LATERAL (
-- include: parts
           ) p) END
FROM (
    SELECT *, row_number() OVER (ORDER BY id) AS place,
           sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(progress), 0)
               + coalesce(pg_column_size(result), 0) + coalesce(pg_column_size(steps), 0) + logged) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, finished_at, task, payload, progress, result, steps,
-- include: logged
                 AS logged
          FROM pgqueue_history t
          WHERE id > %(after)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
          ORDER BY id LIMIT %(limit)s) s) m
WHERE bytes <= %(bytes)s OR place = 1
ORDER BY id

-- name: made
made AS MATERIALIZED (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(ended)s::timestamptz[], %(payloads_before)s::text[], %(payloads)s::text[],
                %(progress_before)s::text[], %(progress)s::text[], %(results_before)s::text[], %(results)s::text[],
                %(steps)s::text[])
        AS n (id, ended, payload_before, payload, progress_before, progress, result_before, result, steps)
)

-- name: new_parts
-- The new values of the steps and signals of a message, of "made".
jsonb_to_recordset(made.steps::jsonb)
    AS n (part text, place integer, key text, digest text, path text[], value jsonb)

-- name: write_live
-- A row that another transaction has locked is skipped: an atomic task locks its row as long as it runs.
WITH
-- include: made
, free AS MATERIALIZED (
    SELECT id FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), of_steps AS (
    -- The lock of the message keeps its run from storing a step meanwhile.
    UPDATE pgqueue_step s
    SET result = jsonb_set(jsonb_build_object('result', s.result), n.path, n.value) -> 'result'
    FROM made JOIN free USING (id) CROSS JOIN LATERAL
-- include: new_parts
    WHERE n.part = 'steps' AND s.message_id = made.id AND s.name = n.key AND md5(s.result::text) = n.digest
), of_signals AS (
    UPDATE pgqueue_signal s
    SET payload = jsonb_set(jsonb_build_object('payload', s.payload), n.path, n.value) -> 'payload'
    FROM made JOIN free USING (id) CROSS JOIN LATERAL
-- include: new_parts
    WHERE n.part = 'signals' AND s.message_id = made.id AND s.id = n.key::bigint AND md5(s.payload::text) = n.digest
),
-- include: of_logs
UPDATE pgqueue_message m
SET payload = coalesce(made.payload::jsonb, m.payload), progress = coalesce(made.progress::jsonb, m.progress)
FROM made JOIN free USING (id)
WHERE m.id = made.id
  AND (made.payload IS NULL OR m.payload = made.payload_before::jsonb)
  AND (made.progress IS NULL OR m.progress = made.progress_before::jsonb)
RETURNING m.id

-- name: write_history
-- The rows are found by their ends, too, so that each lookup reads one partition.
WITH
-- include: made
, free AS MATERIALIZED (
    SELECT h.id
    FROM made CROSS JOIN LATERAL (
        SELECT id FROM pgqueue_history WHERE id = made.id AND finished_at = made.ended LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) h
),
-- include: of_logs
UPDATE pgqueue_history h
SET payload = coalesce(made.payload::jsonb, h.payload), progress = coalesce(made.progress::jsonb, h.progress),
    result = coalesce(made.result::jsonb, h.result),
    steps = CASE WHEN made.steps IS NULL OR jsonb_typeof(h.steps) IS DISTINCT FROM 'object' THEN h.steps ELSE (
        SELECT jsonb_object_agg(kept.part, kept.elements)
        FROM (SELECT e.part, coalesce(jsonb_agg(
                         CASE WHEN n.value IS NULL THEN e.value ELSE jsonb_set(e.value, n.path, n.value) END ORDER BY e.place)
                         FILTER (WHERE e.place > 0), '[]') AS elements
              FROM (SELECT p.key AS part, e.value, e.place FROM jsonb_each(h.steps) p
                    CROSS JOIN LATERAL jsonb_array_elements(p.value) WITH ORDINALITY e (value, place)
                    UNION ALL
                    SELECT p.key, NULL, 0 FROM jsonb_each(h.steps) p) e
              LEFT JOIN
-- include: new_parts
                  ON n.part = e.part AND n.place = e.place
              GROUP BY e.part) kept) END,
    -- A row may be older than the constraints, which hold for each row that an UPDATE writes.
    run_at = greatest(least(h.run_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
    created_at = greatest(least(h.created_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
    expires_at = CASE WHEN h.expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN h.expires_at END
FROM made JOIN free USING (id)
WHERE h.id = made.id AND h.finished_at = made.ended
  AND (made.payload IS NULL OR h.payload = made.payload_before::jsonb)
  AND (made.progress IS NULL OR h.progress = made.progress_before::jsonb)
  AND (made.result IS NULL OR h.result = made.result_before::jsonb)
RETURNING h.id
