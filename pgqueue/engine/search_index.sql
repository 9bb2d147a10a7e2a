-- name: is_valid
-- Whether a table has a search index that serves all its rows.
SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%(name)s)), false)

-- name: states
-- The search indexes that exist, and whether each is valid.
SELECT c.relname::text, x.indisvalid
FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
WHERE x.indexrelid IN (to_regclass('pgqueue_message_search'), to_regclass('pgqueue_history_search'))
ORDER BY c.relname

-- name: partitions
-- The partitions of the history without a valid part of its index.
SELECT c.relname::text
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'pgqueue_history'::regclass AND NOT i.inhdetachpending
  AND NOT EXISTS (
      SELECT FROM pg_index x JOIN pg_inherits part ON part.inhrelid = x.indexrelid
      WHERE x.indrelid = c.oid AND part.inhparent = to_regclass('pgqueue_history_search'))
ORDER BY c.relname

-- name: unattached
-- The indexes of partitions that an interrupted operation has left.
SELECT x.indexrelid::regclass::text
FROM pg_inherits i JOIN pg_class t ON t.oid = i.inhrelid JOIN pg_index x ON x.indrelid = t.oid
JOIN pg_class c ON c.oid = x.indexrelid
WHERE i.inhparent = 'pgqueue_history'::regclass AND c.relname = t.relname || '_search' AND NOT c.relispartition

-- name: on_history
-- The partitions' own indexes become parts of this one.
CREATE INDEX IF NOT EXISTS pgqueue_history_search ON ONLY pgqueue_history
-- include: columns

-- name: columns
USING gin (payload jsonb_path_ops, metadata jsonb_path_ops)

-- name: drop_on_history
DROP INDEX IF EXISTS pgqueue_history_search
