-- Only whoever has locked a schedule's row moves it on, in the transaction that stores the messages
-- of its ticks: each tick has its message once, whoever is killed and whoever tries.

-- name: columns
name, task, cron, every, timezone, args::text, kwargs::text, channel, priority, missed, overlap,
next_at, ticked_at, definition, statement_timestamp()

-- name: is_due
-- What code declares is done by workers that have it in their code: one that vanished is done by
-- those that have it still, and then by nobody.
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
    message_id = coalesce(%(message_id)s, message_id), error = coalesce(%(error)s, error)
WHERE name = %(name)s

-- name: note
UPDATE pgqueue_schedule SET error = %(error)s WHERE name = %(name)s AND error <> %(error)s

-- name: find
SELECT
-- include: columns
FROM pgqueue_schedule
WHERE name = %(name)s

-- name: declare
-- Several versions of the code may say different things at once. What one of them replaced comes
-- back only when none has said for a minute what replaced it: old workers, which still start and
-- stop during a deploy, don't fight the new ones; and code that was rolled back gets its way once
-- the new ones are gone.
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
    next_at = CASE WHEN (s.cron, s.every, s.timezone) IS NOT DISTINCT FROM (excluded.cron, excluded.every, excluded.timezone)
                   THEN s.next_at END,
    superseded = CASE WHEN s.definition = excluded.definition THEN s.superseded
                      ELSE (ARRAY[s.definition] || array_remove(s.superseded, excluded.definition))[1:20] END,
    definition = excluded.definition, seen_at = excluded.seen_at
WHERE s.declared AND CASE
    WHEN s.definition = excluded.definition THEN s.seen_at < statement_timestamp() - interval '10 seconds'
    ELSE excluded.definition <> ALL (s.superseded) OR s.seen_at < statement_timestamp() - interval '1 minute' END

-- name: taken
SELECT name FROM pgqueue_schedule WHERE name = ANY (%(names)s::text[]) AND NOT declared ORDER BY name

-- name: forget
-- No code has had them for a month.
DELETE FROM pgqueue_schedule
WHERE name = ANY (ARRAY(
    SELECT name FROM pgqueue_schedule
    WHERE declared AND seen_at < statement_timestamp() - interval '30 days'
    FOR UPDATE SKIP LOCKED))
