-- Triggers that publish what happens to a table, in the transaction in which it happens.

-- name: table
-- What is there: the table, our schema and the search_path; and which of our triggers the table has already.
SELECT c.oid::integer, c.relkind::text, n.nspname::text, c.relname::text, pgqueue_primary_key_v1(c.oid),
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum),
       current_schemas(false)::text[],
       ARRAY(SELECT tgname::text FROM pg_trigger
             WHERE tgrelid = c.oid AND starts_with(tgname, 'pgqueue_track_') AND NOT tgisinternal),
       (SELECT tgfoid::regprocedure::text FROM pg_trigger
        WHERE tgrelid = c.oid AND starts_with(tgname, 'pgqueue_track_') AND NOT tgisinternal LIMIT 1),
       (SELECT obj_description(tgfoid, 'pg_proc') FROM pg_trigger
        WHERE tgrelid = c.oid AND starts_with(tgname, 'pgqueue_track_') AND NOT tgisinternal LIMIT 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%(table)s)

-- name: is_ready
SELECT to_regproc('pgqueue_row_key_v1') IS NOT NULL

-- name: function
-- As whoever migrated: those who write to the table need no rights on the log. So it trusts no temporary table, and
-- finds what it found then; and texts of times are the same whoever writes.
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {path} SET timezone = 'UTC' AS {body}

-- name: body
-- `new` and `old` are the rows, with two columns more. OFFSET 0 has these computed once.
#variable_conflict use_column
DECLARE
    pgqueue_id text[] := pgqueue_primary_key_v1(TG_RELID);
    pgqueue_key text[] := {key};
    pgqueue_hidden text[] := {hidden};
    pgqueue_acting jsonb := pgqueue_acting_v1();
    pgqueue_metadata jsonb := CASE WHEN pgqueue_acting = '{{}}' THEN '{{}}'
                                   ELSE jsonb_build_object('acting', pgqueue_acting) END;
BEGIN
    IF TG_OP = 'INSERT' THEN
        {insert}
    ELSIF TG_OP = 'UPDATE' THEN
        {update}
    ELSIF TG_OP = 'DELETE' THEN
        {delete}
    ELSE
        INSERT INTO pgqueue_event_inbox (topic, metadata) VALUES ({topic} || '.truncate', pgqueue_metadata);
    END IF;
    IF FOUND THEN
        PERFORM pgqueue_tell_readers_v1();
    END IF;
    RETURN NULL;
END

-- name: store
-- A row without its other half is new, or gone. What shows nothing, or what it showed before, is no event.
INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata)
SELECT {topic} || CASE WHEN old.pgqueue_row IS NULL THEN '.insert'
                       WHEN new.pgqueue_row IS NULL THEN '.delete' ELSE '.update' END,
       CASE WHEN octet_length({key}) > 1000 THEN left({key}, 250) ELSE coalesce({key}, '') END,
       jsonb_build_object(
           'new', new.pgqueue_shown, 'old', old.pgqueue_shown,
           'diff', CASE WHEN new.pgqueue_row IS NOT NULL AND old.pgqueue_row IS NOT NULL
                        THEN pgqueue_diff_v1(old.pgqueue_shown, new.pgqueue_shown) END),
       pgqueue_metadata
FROM {rows}
WHERE CASE WHEN new.pgqueue_row IS NULL THEN old.pgqueue_shown ELSE new.pgqueue_shown END IS NOT NULL
  AND new.pgqueue_shown IS DISTINCT FROM old.pgqueue_shown
  AND ({only_if}
);

-- name: inserted
{new} LEFT JOIN {no_old} ON true

-- name: deleted
{old} LEFT JOIN {no_new} ON true

-- name: updated
{new} FULL JOIN {old} ON {new_id} = {old_id}

-- name: row_key
-- Most keys are one column: a call of the function takes as long as all the rest.
CASE WHEN cardinality({columns}) = 1 THEN {row} ->> {columns}[1] ELSE pgqueue_row_key_v1({row}, {columns}) END

-- name: side
(SELECT r.*, to_jsonb(r) AS pgqueue_row, {shown} AS pgqueue_shown FROM {source} r WHERE {which} OFFSET 0) {side}

-- name: check
SELECT FROM (SELECT {hidden}::text[] AS pgqueue_hidden) options CROSS JOIN LATERAL (SELECT FROM {rows} WHERE ({only_if}
) LIMIT 0) found

-- name: hidden
-- Asked each time: columns come and go. A transition table has nulls for virtual columns (PostgreSQL 18).
ARRAY(SELECT attname::text FROM pg_attribute
      WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND ({which} OR attgenerated = 'v'))

-- name: others
attname <> ALL ({columns}::text[])

-- name: these
attname = ANY ({columns}::text[])

-- name: trigger
CREATE TRIGGER {name} AFTER {event} ON {table} {transition} FOR EACH STATEMENT EXECUTE FUNCTION {function}()

-- name: drop_trigger
DROP TRIGGER {name} ON {table}

-- name: drop_function
DROP FUNCTION {function}

-- name: revoke
REVOKE ALL ON FUNCTION {function}() FROM PUBLIC

-- name: remember
COMMENT ON FUNCTION {function}() IS {comment}
