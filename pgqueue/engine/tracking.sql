-- Triggers that publish the changes of a table, in the transaction of each change.
--
-- Triggers of an older version stay in the databases of users until they track the table again. So the functions that
-- triggers call (pgqueue_diff_v1, …) and the columns of the inbox must not change. An error in a trigger fails the
-- user's own write, so a trigger names columns only where the user named some.

-- name: table
-- The table with its columns, the search_path, and the triggers and the function that pgqueue has made for it.
SELECT c.oid::integer, c.relkind::text, n.nspname::text, c.relname::text, pgqueue_primary_key_v1(c.oid),
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum),
       ARRAY(SELECT attnum::integer FROM pg_attribute
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
-- The function runs with the rights of the role that migrated, so that writers of the table need no rights on the log.
-- Its search_path is fixed: it uses no temporary table, and names keep their meaning. Its time zone is fixed, so that
-- texts of times are the same for all writers. The generic plan saves the planning, which takes as long as the rest of
-- a single row's event. The plan also fits many rows: both tables are read once, and joined by a hash.
CREATE OR REPLACE FUNCTION {signature} RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {path} SET timezone = 'UTC' SET plan_cache_mode = force_generic_plan AS {body}

-- name: body
-- Variables are named with the block, since a column of the table may have any name. `new` and `old` are the rows, with
-- three more columns. OFFSET 0 makes PostgreSQL compute these only once.
#variable_conflict use_column
<<pgqueue_track>>
DECLARE
    id text[] := pgqueue_primary_key_v1(TG_RELID);
    key text[] := {key};
    acting jsonb := pgqueue_acting_v1();
    metadata jsonb := CASE WHEN acting = '{{}}' THEN '{{}}' ELSE jsonb_build_object('acting', acting) END;
    depth integer := pg_trigger_depth();
    hidden text[];
    is_odd boolean;
    is_merged boolean := false;
    since bigint;
    first bigint;
    keys text[];
    stored bigint;
BEGIN
    {hidden}
    IF pgqueue_track.depth > 1 OR current_setting('pgqueue.nested', true) <> '' THEN
        pgqueue_track.since := pgqueue_nested_since_v1(pgqueue_track.depth);
        pgqueue_track.first := nextval(pg_get_serial_sequence('pgqueue_event_inbox', 'id'));
    END IF;
    IF pgqueue_track.is_odd AND TG_OP <> 'TRUNCATE' THEN
        {odd}
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO pgqueue_event_inbox (topic, metadata) VALUES ({topic} || '.truncate', pgqueue_track.metadata);
    {branches}
    END IF;
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF pgqueue_track.first IS NOT NULL THEN
        {order}
        PERFORM pgqueue_note_nested_v1(pgqueue_track.depth, pgqueue_track.since, pgqueue_track.first);
    END IF;
    IF pgqueue_track.stored > 0 THEN
        PERFORM pgqueue_tell_readers_v1();
    END IF;
    RETURN NULL;
END

-- name: branch
ELSIF TG_OP = {operation} THEN
    {merged}
    IF pgqueue_track.is_odd OR pgqueue_track.is_merged THEN
        EXECUTE replace({carefully}, {marker},
                        CASE WHEN pgqueue_track.is_odd THEN pgqueue_row_as_json_v1(TG_RELID) ELSE 'to_jsonb(r.*)' END)
        USING pgqueue_track.hidden, pgqueue_track.id, pgqueue_track.key, pgqueue_track.is_merged, pgqueue_track.metadata;
    ELSE
        {store}
    END IF;

-- name: odd
-- jsonb refuses some values of rows: \u0000 of a json column, a number beyond numeric's range, more than 256 MB. The
-- block tries them before rows are stored: a statement that stores within such a block would take a transaction number
-- for it.
BEGIN
    pgqueue_track.is_odd := false;
    IF TG_OP <> 'DELETE' THEN
        pgqueue_track.is_odd := EXISTS (SELECT FROM pgqueue_new r WHERE octet_length(to_jsonb(r.*)::text) > {most});
    END IF;
    IF TG_OP <> 'INSERT' AND NOT pgqueue_track.is_odd THEN
        pgqueue_track.is_odd := EXISTS (SELECT FROM pgqueue_old r WHERE octet_length(to_jsonb(r.*)::text) > {most});
    END IF;
EXCEPTION WHEN OTHERS THEN
    pgqueue_track.is_odd := true;
END;

-- name: merged
-- One statement may change a row twice: each foreign key with ON DELETE SET NULL changes it by itself, and the trigger
-- sees both changes at once.
pgqueue_track.is_merged := EXISTS (
    SELECT FROM pg_constraint
    WHERE conrelid = TG_RELID AND contype = {foreign_key} AND (confupdtype IN ('c', 'n', 'd') OR confdeltype IN ('n', 'd')));

-- name: order
-- A user's trigger that ran within this statement has published its changes before this trigger does. If such a trigger
-- changed a row after this statement, the row's events are published again, behind the statement's events.
IF pgqueue_track.since IS NOT NULL AND pgqueue_track.id IS NOT NULL AND pgqueue_track.stored > 0 THEN
    pgqueue_track.keys := pgqueue_nested_keys_v1({topic}, pgqueue_track.since, pgqueue_track.first);
    IF pgqueue_track.keys IS NOT NULL THEN
        EXECUTE replace(replace(CASE TG_OP {changed} END, {rows_marker}, pgqueue_rows_now_v1(TG_RELID, pgqueue_track.id)),
                        {marker}, CASE WHEN pgqueue_track.is_odd THEN pgqueue_row_as_json_v1(TG_RELID) ELSE 'to_jsonb(r.*)' END)
        INTO pgqueue_track.keys
        USING pgqueue_track.hidden, pgqueue_track.id, pgqueue_track.key, pgqueue_track.is_merged, pgqueue_track.metadata,
              pgqueue_track.keys, pgqueue_track.since, pgqueue_track.first;
        PERFORM pgqueue_publish_behind_v1({topic}, pgqueue_track.keys, pgqueue_track.since, pgqueue_track.first);
    END IF;
END IF;

-- name: changed
-- The keys of rows that have changed since the statement: the present row differs from the statement's row, or nested
-- events lead from the statement's row to the present one.
WITH known AS MATERIALIZED (
    SELECT {key} AS key, {id} AS id, new."pgqueue: shown" AS shown,
           (SELECT jsonb_object_agg(name, coalesce(new."pgqueue: row", old."pgqueue: row") -> name)
            FROM unnest($2) AS part (name)) AS parts
    FROM {rows}
    WHERE {key} = ANY ($6) AND ({once})
), current AS MATERIALIZED (
    SELECT {current_id} AS id, now."pgqueue: shown" AS shown FROM {current}
)
SELECT array_agg(DISTINCT known.key)
FROM known
LEFT JOIN current ON current.id = known.id
LEFT JOIN pgqueue_nested_v1({topic}, $6, $7, $8) nested ON nested.key = known.key
WHERE current.shown IS DISTINCT FROM known.shown
   OR nested.was = coalesce(known.shown, 'null') AND nested.became = coalesce(current.shown, 'null')

-- name: store
-- A row without its other half is new, or deleted. A row makes no event if its published part is NULL or unchanged.
INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata)
SELECT {topic} || CASE WHEN old."pgqueue: row" IS NULL THEN '.insert'
                       WHEN new."pgqueue: row" IS NULL THEN '.delete' ELSE '.update' END,
       {key},
       jsonb_build_object(
           'new', new."pgqueue: shown", 'old', old."pgqueue: shown",
           'diff', CASE WHEN new."pgqueue: row" IS NOT NULL AND old."pgqueue: row" IS NOT NULL
                        THEN pgqueue_diff_v1(old."pgqueue: shown", new."pgqueue: shown") END),
       {metadata}
FROM {rows}
WHERE CASE WHEN new."pgqueue: row" IS NULL THEN old."pgqueue: shown" ELSE new."pgqueue: shown" END IS NOT NULL
  AND new."pgqueue: shown" IS DISTINCT FROM old."pgqueue: shown"
  AND ({once})
  AND ({only_if}
);

-- name: once
-- One event of a row: from its first state to its last. Both transition tables are in the order of the changes.
NOT {is_merged}
OR (new."pgqueue: nth" IS NULL OR new."pgqueue: nth" IN (
        SELECT max(nth) FROM (SELECT row_number() OVER () AS nth, {row} AS changed FROM pgqueue_new r OFFSET 0) each
        GROUP BY {each_id}))
AND (old."pgqueue: nth" IS NULL OR old."pgqueue: nth" IN (
        SELECT min(nth) FROM (SELECT row_number() OVER () AS nth, {row} AS changed FROM pgqueue_old r OFFSET 0) each
        GROUP BY {each_id}))

-- name: inserted
{new} LEFT JOIN {no_old} ON true

-- name: deleted
{old} LEFT JOIN {no_new} ON true

-- name: updated
{new} FULL JOIN {old} ON {new_id} = {old_id}

-- name: row_key
-- Most keys have one column: for these, a call of the function would take as long as the rest of the statement.
CASE WHEN cardinality({columns}) = 1 THEN {row} ->> {columns}[1] ELSE pgqueue_row_key_v1({row}, {columns}) END

-- name: key
CASE WHEN octet_length({key}) > 1000 THEN left({key}, 250) ELSE coalesce({key}, '') END

-- name: side
(SELECT r.*, {shown} AS "pgqueue: shown"
 FROM (SELECT r.*, {row} AS "pgqueue: row", {nth} AS "pgqueue: nth", {serialized} AS "pgqueue: own"
       FROM {source} r WHERE {which} OFFSET 0) r
 OFFSET 0) {side}

-- name: check
SELECT FROM (SELECT {hidden}::text[] AS hidden, {hidden}::text[] AS key) pgqueue_track
CROSS JOIN LATERAL (SELECT FROM {rows} WHERE ({only_if}
) LIMIT 0) found

-- name: hidden
-- The columns are read each time, since they may change. A transition table has nulls for virtual columns
-- (PostgreSQL 18). Columns of all types but the listed ones may have values that jsonb refuses.
SELECT coalesce(array_agg(attname::text) FILTER (WHERE ({which}) OR attgenerated = 'v'), '{{}}'),
       coalesce(bool_or(atttypid IN (114, 199) OR atttypid >= 16384 AND (
           SELECT typcategory NOT IN ('B', 'D', 'E', 'I', 'N', 'S', 'T', 'V') FROM pg_type t WHERE t.oid = atttypid)), false)
INTO pgqueue_track.hidden, pgqueue_track.is_odd
FROM pg_attribute
WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped;

-- name: others
-- A column that took the name of a published column later is not published. After a dump and a restore, the columns and
-- the table have other numbers.
attname <> ALL ({columns}::text[]) OR TG_RELID = {oid} AND attnum <> ALL ({numbers}::integer[])

-- name: these
-- An excluded column stays excluded under any later name. After a dump and a restore, columns have other numbers. If an
-- excluded name is missing then, each column that the definition does not know may be the excluded one.
attname = ANY ({columns}::text[]) OR TG_RELID = {oid} AND attnum = ANY ({numbers}::integer[])
OR attname <> ALL ({known}::text[]) AND EXISTS (
    SELECT FROM unnest({columns}::text[]) name
    WHERE NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = TG_RELID AND a.attname = name AND NOT a.attisdropped))

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
