-- Encrypted columns get new values in place, in any state of their messages: a later settle moves the row with the new
-- values. No other column changes, so no fence is needed. A column that was changed since it was read, by a checkpoint
-- or a debounced call, is left as it is.

-- name: by_index
-- The statements walk the tables along their ids, for any statistics of the tables.
SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan,enable_bitmapscan,enable_sort}'::text[]) AS n (name)

-- name: live
SELECT id, NULL::timestamptz, task,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN payload::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR progress ->> '@' = 'encrypted' THEN progress::text END,
       NULL
FROM (
    SELECT *, row_number() OVER (ORDER BY id) AS place,
           sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(progress), 0)) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, task, payload, progress FROM pgqueue_message
          WHERE id > %(after)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
          ORDER BY id LIMIT %(limit)s) s) s
WHERE bytes <= %(bytes)s OR place = 1
ORDER BY id

-- name: history
SELECT id, finished_at, task,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR payload ->> '@' = 'encrypted' THEN payload::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR progress ->> '@' = 'encrypted' THEN progress::text END,
       CASE WHEN task = ANY (%(tasks)s::text[]) OR result ->> '@' = 'encrypted' THEN result::text END
FROM (
    SELECT *, row_number() OVER (ORDER BY id) AS place,
           sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(progress), 0)
               + coalesce(pg_column_size(result), 0)) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, finished_at, task, payload, progress, result FROM pgqueue_history
          WHERE id > %(after)s AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s))
          ORDER BY id LIMIT %(limit)s) s) s
WHERE bytes <= %(bytes)s OR place = 1
ORDER BY id

-- name: made
made AS MATERIALIZED (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(ended)s::timestamptz[], %(payloads_before)s::text[], %(payloads)s::text[],
                %(progress_before)s::text[], %(progress)s::text[], %(results_before)s::text[], %(results)s::text[])
        AS n (id, ended, payload_before, payload, progress_before, progress, result_before, result)
)

-- name: write_live
-- A row that another transaction has locked is skipped: an atomic task locks its row as long as it runs.
WITH
-- include: made
, free AS MATERIALIZED (
    SELECT id FROM pgqueue_message WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
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
)
UPDATE pgqueue_history h
SET payload = coalesce(made.payload::jsonb, h.payload), progress = coalesce(made.progress::jsonb, h.progress),
    result = coalesce(made.result::jsonb, h.result),
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
