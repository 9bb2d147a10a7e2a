-- A schedule's row is updated only by the session that has locked it, in the transaction that stores the
-- messages of its ticks. So each tick has exactly one message, even if workers compete or are killed.

-- name: columns
name, task, cron, every, timezone, args::text, kwargs::text, channel, priority, missed, overlap,
next_at, ticked_at, definition, statement_timestamp()

-- name: is_due
-- The workers whose code declares a schedule do its ticks. When the schedule is removed from the code, only workers
-- with the old code do them, and when these have stopped, none does.
NOT paused AND (NOT declared OR name = ANY (%(names)s::text[])) AND name <> ALL (%(aside)s::text[])

-- name: due
SELECT
-- include: columns
FROM pgqueue_schedule
WHERE (next_at IS NULL OR next_at <= statement_timestamp()) AND
-- include: is_due
ORDER BY next_at NULLS FIRST
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED

-- name: next_due
SELECT extract(epoch FROM min(coalesce(next_at, clock_timestamp())) - clock_timestamp())::float8
FROM pgqueue_schedule
WHERE
-- include: is_due

-- name: move
UPDATE pgqueue_schedule
SET next_at = %(next_at)s, ticked_at = coalesce(%(ticked_at)s, ticked_at),
    message_id = coalesce((%(message_ids)s::bigint[])[1], message_id),
    recent = jsonb_path_query_array(to_jsonb(%(message_ids)s::bigint[]) || recent, '$[0 to 9]'),
    error = coalesce(%(error)s, error)
WHERE name = %(name)s

-- name: note
UPDATE pgqueue_schedule SET error = %(error)s WHERE name = %(name)s AND error <> %(error)s

-- name: find
SELECT
-- include: columns
FROM pgqueue_schedule
WHERE name = %(name)s

-- name: declare
-- Several versions of the code may declare a schedule differently at the same time. A definition that was
-- replaced comes back only after no worker has declared its replacement for a minute. So old workers that
-- start during a deploy do not undo the new definition, and after a rollback the old one returns.
INSERT INTO pgqueue_schedule AS s
    (name, task, cron, every, timezone, args, kwargs, missed, overlap, declared, definition, seen_at)
SELECT name, task, cron, every, timezone, args::jsonb, kwargs::jsonb, missed, overlap, true, definition,
       statement_timestamp()
FROM unnest(%(names)s::text[], %(tasks)s::text[], %(crons)s::text[], %(everys)s::interval[], %(timezones)s::text[],
            %(args)s::text[], %(kwargs)s::text[], %(misseds)s::text[], %(overlaps)s::text[], %(definitions)s::text[])
    AS d (name, task, cron, every, timezone, args, kwargs, missed, overlap, definition)
ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE
SET task = excluded.task, cron = excluded.cron, every = excluded.every, timezone = excluded.timezone,
    args = excluded.args, kwargs = excluded.kwargs, missed = excluded.missed, overlap = excluded.overlap,
    -- A tick that is due has its message, also where the new code has other times.
    next_at = CASE WHEN (s.cron, s.every, s.timezone) IS NOT DISTINCT FROM (excluded.cron, excluded.every, excluded.timezone)
                     OR s.next_at BETWEEN statement_timestamp() - interval '1 minute' AND statement_timestamp()
                   THEN s.next_at END,
    superseded = CASE WHEN s.definition = excluded.definition THEN s.superseded
                      ELSE (ARRAY[s.definition] || array_remove(s.superseded, excluded.definition))[1:20] END,
    definition = excluded.definition, seen_at = excluded.seen_at
WHERE s.declared AND CASE
    WHEN s.definition = excluded.definition
        THEN NOT s.seen_at BETWEEN statement_timestamp() - interval '10 seconds' AND statement_timestamp()
    ELSE excluded.definition <> ALL (s.superseded) OR s.seen_at < statement_timestamp() - interval '1 minute' END

-- name: taken
SELECT name FROM pgqueue_schedule WHERE name = ANY (%(names)s::text[]) AND NOT declared ORDER BY name

-- name: forget
-- Delete schedules that no worker has declared for 30 days.
DELETE FROM pgqueue_schedule
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_schedule
    WHERE declared AND seen_at <
-- include: retained_at
          - interval '30 days'
    FOR UPDATE SKIP LOCKED))
