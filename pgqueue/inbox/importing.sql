-- Messages after a position, in the order of arrival. Messages that another listener has locked are skipped.

-- name: table_named
-- A NULL schema: the search path finds the table.
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p')
  AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s END

-- name: aggregates
-- locked_until of a message that was never started is its due time. Otherwise it is the lease of a listener that no
-- longer runs.
SELECT id::text, position, aggregate_type, aggregate_id, message_type, segment, concurrency, payload::text,
       coalesce(metadata, '{{}}')::text,
       CASE WHEN started_attempts = 0 AND locked_until > statement_timestamp() THEN locked_until END
FROM (SELECT *, to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS') || id AS position FROM {table}) m
WHERE processed_at IS NULL AND abandoned_at IS NULL AND position > %(after)s
ORDER BY position
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: aggregates_delete
DELETE FROM {table} WHERE id = ANY (%(ids)s::uuid[]) RETURNING id

-- name: aggregates_abandoned
SELECT aggregate_type, message_type, count(*) FROM {table}
WHERE abandoned_at IS NOT NULL AND processed_at IS NULL
GROUP BY aggregate_type, message_type

-- name: aggregates_ended
SELECT id::text FROM {table}
WHERE (processed_at IS NOT NULL OR abandoned_at IS NOT NULL) AND id::text > %(after)s
ORDER BY id::text
LIMIT %(limit)s
