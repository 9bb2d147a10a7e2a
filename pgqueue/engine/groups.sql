-- name: make
WITH made AS (
    INSERT INTO pgqueue_group (name, partitions, created_at)
    VALUES (%(name)s, %(partitions)s, statement_timestamp())
    ON CONFLICT (name) DO NOTHING
    RETURNING name, partitions
)
INSERT INTO pgqueue_cursor ("group", partition, position)
SELECT name, number, %(position)s FROM made, generate_series(0, partitions - 1) AS number
ON CONFLICT DO NOTHING

-- name: partitions_of
SELECT partitions FROM pgqueue_group WHERE name = %(name)s

-- name: take
-- A reader counts if it was seen within a lease. Each reader has the same share of the partitions, rounded up. It is
-- rounded down while another reader has less: otherwise three readers of four partitions might have two, two and none.
-- A reader whose lease ended without giving its partition back has died, or was cut off. If it had noted an event
-- as begun, the loss is charged to this event. If not, each of the next events may be the cause.
-- A lease from the future (the server's clock was set back) ends one lease after now.
WITH
bounded AS (
    UPDATE pgqueue_cursor
    SET lease_until = statement_timestamp() + %(lease)s::interval
    WHERE "group" = %(name)s AND partition = ANY (ARRAY(
        SELECT partition FROM pgqueue_cursor
        WHERE "group" = %(name)s AND reader_id <> %(reader)s
          AND lease_until > statement_timestamp() + %(lease)s::interval + interval '1 second'
        FOR NO KEY UPDATE SKIP LOCKED))
),
-- include: free
UPDATE pgqueue_cursor c
SET reader_id = %(reader)s, lease_until = statement_timestamp() + %(lease)s::interval, begun_at = NULL,
    lost = CASE WHEN is_lost AND was_handling THEN c.lost + 1 WHEN is_lost THEN greatest(c.lost, 1) ELSE c.lost END,
    error = CASE WHEN is_lost AND was_handling THEN 'ReaderLost: a process ended while it handled event ' || c.suspect
                 ELSE c.error END
FROM free
WHERE c."group" = %(name)s AND c.partition = free.partition
RETURNING c.partition, c.position, c.failures,
          -- A failure in the future, after the server's clock was set back, waits for its whole delay from now.
          coalesce(extract(epoch FROM c.retry_at - greatest(statement_timestamp(), c.updated_at)), 0)::float8,
          CASE WHEN c.suspect > c.position THEN c.suspect END, c.lost

-- name: free
-- include: shares
, free AS MATERIALIZED (
    SELECT partition, reader_id IS NOT NULL AND reader_id <> %(reader)s AS is_lost,
           begun_at IS NOT NULL AND suspect > position AS was_handling
    FROM pgqueue_cursor
    WHERE "group" = %(name)s AND NOT is_stopped
      AND (reader_id IS NULL OR lease_until < statement_timestamp()
           OR reader_id = %(reader)s AND partition <> ALL (%(held)s::int[]))
      AND partition <> ALL (%(aside)s::int[])
    ORDER BY partition
    LIMIT greatest((SELECT share FROM shares) - cardinality(%(held)s::int[]), 0)
    FOR NO KEY UPDATE SKIP LOCKED
)

-- name: chosen
-- The partitions that `take` would take.
WITH
-- include: free
SELECT partition FROM free

-- name: attempt
UPDATE pgqueue_cursor
SET reader_id = %(reader)s, lease_until = statement_timestamp() + %(lease)s::interval, begun_at = NULL
WHERE "group" = %(name)s AND partition = ANY (%(partitions)s::int[])

-- name: patience
-- An operator may have locked the row: the other partitions of the reader must not wait for it.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', %(patience)s, true))

-- name: begin
-- Note the begin of a handler, for an event that may have ended the last reader's process, and for no other event.
-- include: patience
UPDATE pgqueue_cursor
SET lost = CASE WHEN suspect = %(suspect)s THEN lost ELSE 1 END, suspect = %(suspect)s,
    begun_at = statement_timestamp()
FROM patience
WHERE "group" = %(name)s AND partition = %(partition)s AND reader_id = %(reader)s AND position < %(suspect)s

-- name: acquit
-- include: patience
UPDATE pgqueue_cursor SET suspect = NULL, lost = 0, begun_at = NULL
FROM patience
WHERE "group" = %(name)s AND partition = %(partition)s AND reader_id = %(reader)s

-- name: unlocked
partition = ANY (ARRAY(
    SELECT partition FROM pgqueue_cursor
    WHERE "group" = %(name)s AND reader_id = %(reader)s
    FOR NO KEY UPDATE SKIP LOCKED))

-- name: excuse
UPDATE pgqueue_cursor SET begun_at = NULL
WHERE "group" = %(name)s AND reader_id = %(reader)s AND
-- include: unlocked

-- name: shares
shares AS MATERIALIZED (
    SELECT most, CASE WHEN live.least < g.partitions / live.count THEN g.partitions / live.count ELSE most END AS share
    FROM pgqueue_group g
    CROSS JOIN (
        SELECT greatest(1, count(*)) AS count,
               min(each.has) FILTER (WHERE each.id IS DISTINCT FROM %(reader)s::uuid) AS least
        FROM (
            SELECT r.id, count(c.partition) AS has
            FROM pgqueue_reader r
            LEFT JOIN pgqueue_cursor c ON c."group" = %(name)s AND c.reader_id = r.id
            WHERE r."group" = %(name)s AND r.last_seen > statement_timestamp() - %(lease)s::interval
              AND r.last_seen < statement_timestamp() + %(lease)s::interval  -- not from the future
            GROUP BY r.id) each) live
    CROSS JOIN LATERAL (SELECT (g.partitions + live.count - 1) / live.count AS most) rounded
    WHERE g.name = %(name)s
)

-- name: share
WITH
-- include: shares
SELECT most, share FROM shares

-- name: renew
-- No other reader takes a locked partition: it stays the reader's, also if its lease ends meanwhile.
WITH renewed AS (
    UPDATE pgqueue_cursor SET lease_until = statement_timestamp() + %(lease)s::interval
    WHERE "group" = %(name)s AND reader_id = %(reader)s
      AND (%(partitions)s::int[] IS NULL OR partition = ANY (%(partitions)s::int[])) AND
-- include: unlocked
)
SELECT partition FROM pgqueue_cursor
WHERE "group" = %(name)s AND reader_id = %(reader)s
  AND (%(partitions)s::int[] IS NULL OR partition = ANY (%(partitions)s::int[]))

-- name: held
SELECT partition FROM pgqueue_cursor WHERE "group" = %(name)s AND reader_id = %(reader)s

-- name: release
UPDATE pgqueue_cursor SET reader_id = NULL, lease_until = NULL, begun_at = NULL
WHERE "group" = %(name)s AND reader_id = %(reader)s AND partition = ANY (%(partitions)s::int[]) AND
-- include: unlocked

-- name: commit
-- Fenced by the id of the reader: a partition with another reader, or without one, is not changed. Also fenced by the
-- position: an earlier commit whose answer was lost may have moved the cursor, or may still move it. And a standby that is
-- promoted may lack the last moves: then the reader goes back with the cursor.
-- include: patience
UPDATE pgqueue_cursor
SET position = %(upto)s, failures = 0, error = '', retry_at = NULL, updated_at = statement_timestamp()
FROM patience
WHERE "group" = %(name)s AND partition = %(partition)s AND reader_id = %(reader)s
  AND position BETWEEN %(stored)s AND %(after)s

-- name: fail
-- include: patience
UPDATE pgqueue_cursor
SET position = %(upto)s, failures = %(failures)s, error = %(error)s,
    retry_at = statement_timestamp() + %(retry_after)s::interval,
    is_stopped = %(retry_after)s::interval IS NULL, updated_at = statement_timestamp(), begun_at = NULL,
    reader_id = CASE WHEN %(retry_after)s::interval IS NOT NULL THEN reader_id END
FROM patience
WHERE "group" = %(name)s AND partition = %(partition)s AND reader_id = %(reader)s
  AND position BETWEEN %(stored)s AND %(upto)s

-- name: park
WITH parked AS (
    INSERT INTO pgqueue_message
        (channel, key, task, payload, state, max_attempts, attempt, failures, errors, claimed_at, started_at)
    VALUES (%(channel)s, %(key)s, %(task)s, %(payload)s::jsonb, 'dead', %(failures)s, %(failures)s, %(failures)s,
            %(errors)s::jsonb, statement_timestamp(), statement_timestamp())
    RETURNING id, channel
)
SELECT id, pgqueue_notice_v1(channel, id, 'ended', 'dead') FROM parked

-- name: reset
-- The present readers lose their partitions, and are fenced. They take them again at the new position.
UPDATE pgqueue_cursor
SET position = %(position)s, reader_id = NULL, lease_until = NULL, failures = 0, error = '', retry_at = NULL,
    is_stopped = false, updated_at = statement_timestamp(), suspect = NULL, lost = 0, begun_at = NULL
WHERE "group" = %(name)s AND (%(partition)s::int IS NULL OR partition = %(partition)s)

-- name: timeline
-- The name of a file of the WAL begins with eight digits of its timeline.
SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)

-- name: positions
SELECT "group", partition, position, reader_id, is_stopped OR failures > 0
FROM pgqueue_cursor
WHERE "group" = ANY (%(names)s::text[])
ORDER BY "group", partition

-- name: locked_positions
-- include: positions
FOR NO KEY UPDATE

-- name: seize
-- Take all partitions of a live group for the hand-over of its rebuild. Its readers are fenced by that: an event that
-- they handle now is rolled back or handled again. A reader whose lease has ended may have died of an event: its
-- partition is left to the next reader, which charges the loss.
UPDATE pgqueue_cursor
SET reader_id = %(reader)s, lease_until = statement_timestamp() + %(lease)s::interval, begun_at = NULL
WHERE "group" = %(name)s
  AND partition = ANY (ARRAY(
    SELECT partition FROM pgqueue_cursor WHERE "group" = %(name)s ORDER BY partition FOR NO KEY UPDATE))
  AND NOT EXISTS (
    SELECT FROM pgqueue_cursor
    WHERE "group" = %(name)s AND reader_id <> %(reader)s AND lease_until < statement_timestamp())

-- name: resume
UPDATE pgqueue_cursor
SET is_stopped = false, failures = 0, retry_at = NULL, reader_id = NULL, lease_until = NULL,
    suspect = NULL, lost = 0, begun_at = NULL
WHERE "group" = %(name)s AND (is_stopped OR retry_at IS NOT NULL)

-- name: delete
WITH gone AS (
    DELETE FROM pgqueue_cursor WHERE "group" = ANY (%(names)s::text[])
)
DELETE FROM pgqueue_group WHERE name = ANY (%(names)s::text[]) RETURNING name

-- name: states
SELECT g.name, g.partitions, min(c.position), (b.head - min(c.position)),
       count(DISTINCT c.reader_id) FILTER (WHERE c.lease_until > statement_timestamp()),
       count(*) FILTER (WHERE c.is_stopped),
       coalesce(max(c.error) FILTER (WHERE c.is_stopped), max(c.error), ''), max(c.updated_at)
FROM pgqueue_group g
JOIN pgqueue_cursor c ON c."group" = g.name
CROSS JOIN (
-- include: bounds
) b
WHERE %(names)s::text[] IS NULL OR c."group" = ANY (%(names)s::text[])
GROUP BY g.name, g.partitions, b.head
ORDER BY g.name

-- name: readers
SELECT DISTINCT c."group", r.host, r.pid
FROM pgqueue_cursor c
JOIN pgqueue_reader r ON r.id = c.reader_id
WHERE c."group" = ANY (%(names)s::text[]) AND c.lease_until > statement_timestamp()
ORDER BY c."group", r.host, r.pid

-- name: cursors
SELECT c.partition, c.position, b.head - c.position,
       coalesce(r.host || ':' || r.pid, c.reader_id::text, ''), c.lease_until,
       coalesce(c.lease_until > statement_timestamp(), false),
       c.failures, c.error, c.retry_at, c.is_stopped, c.updated_at
FROM pgqueue_cursor c
LEFT JOIN pgqueue_reader r ON r.id = c.reader_id
CROSS JOIN (
-- include: bounds
) b
WHERE c."group" = %(name)s
ORDER BY c.partition
