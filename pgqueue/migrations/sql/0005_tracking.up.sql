-- Table events: what the triggers that `TrackTable` makes call, and what shows their trail.

-- The columns that differ, with their new values. A column that is missing now is null.
CREATE FUNCTION pgqueue_diff_v1(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(jsonb_object_agg(name, $2 -> name), '{}')
    FROM jsonb_object_keys(coalesce($1, '{}') || coalesce($2, '{}')) AS name
    WHERE $1 -> name IS DISTINCT FROM $2 -> name
$$;

-- Who acts, and why, as the transaction says: a JSON object, or a text, which is the user. What a session says that may
-- not store events is recorded with its role. The triggers of `TrackTable` run as their owner: so the role that has
-- logged in is asked about.
CREATE FUNCTION pgqueue_acting_v1() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN who = '{}' OR has_column_privilege(session_user, 'pgqueue_event_inbox'::regclass, 'metadata', 'INSERT') THEN who
                ELSE who || jsonb_build_object('session_user', session_user::text) END
    FROM (SELECT CASE WHEN said IS NULL OR said = '' THEN '{}'
                      WHEN said LIKE '{%' THEN said::jsonb
                      ELSE jsonb_build_object('user', said) END AS who
          FROM (SELECT current_setting('pgqueue.acting', true) OFFSET 0) AS setting (said) OFFSET 0) AS known
$$;

-- The columns of a table's primary key, as they are called now.
CREATE FUNCTION pgqueue_primary_key_v1(tracked oid) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = $1 AND i.indisprimary AND k.place <= i.indnkeyatts
$$;

-- The key of a row: the text of a column, or a JSON array of several columns' texts.
CREATE FUNCTION pgqueue_row_key_v1(tracked jsonb, columns text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN cardinality($2) = 1 THEN $1 ->> $2[1]
                ELSE (SELECT jsonb_agg($1 ->> name ORDER BY place)::text
                      FROM unnest($2) WITH ORDINALITY AS part (name, place)) END
$$;

-- What the triggers of `TrackTable` call for rows that jsonb can't hold, and for changes within a change.

-- A value as jsonb, or else its text, or else null: a write must not fail for what is written.
CREATE FUNCTION pgqueue_value_v1(value anyelement) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN to_jsonb($1);
EXCEPTION WHEN OTHERS THEN
    BEGIN
        RETURN to_jsonb($1::text);
    EXCEPTION WHEN OTHERS THEN
        RETURN NULL;
    END;
END $$;

-- A row of such values. Where all together take more than 64 MB, the large ones are null.
CREATE FUNCTION pgqueue_row_v1(columns text[], jsons jsonb[]) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_object_agg(name, CASE WHEN total > 64000000 AND bytes > 64000000 / cardinality($1) THEN 'null'
                                       ELSE coalesce(value, 'null') END)
    FROM (
        SELECT name, value, octet_length(value::text) AS bytes, sum(octet_length(value::text)) OVER () AS total
        FROM unnest($1, $2) AS part (name, value)) each
$$;

-- The expression that makes JSON of the row r of a table, whatever it holds.
CREATE FUNCTION pgqueue_row_as_json_v1(tracked oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT format('pgqueue_row_v1(%L::text[], ARRAY[%s]::jsonb[])',
                  array_agg(attname::text ORDER BY attnum),
                  string_agg(format('pgqueue_value_v1(r.%I)', attname), ', ' ORDER BY attnum))
    FROM pg_attribute
    WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
$$;

-- The rows of a table that have the primary keys in the CTE `known`: a query.
CREATE FUNCTION pgqueue_rows_now_v1(tracked oid, id text[]) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT format('(SELECT t.* FROM %1$s t JOIN jsonb_populate_recordset(NULL::%1$s, (SELECT jsonb_agg(parts) FROM known)) k ON %2$s)',
                  $1::regclass, string_agg(format('t.%1$I = k.%1$I', name), ' AND '))
    FROM unnest($2) AS part (name)
$$;

-- Of the current transaction: where the events begin that triggers have published from deeper within triggers than
-- this. The setting has a number for each depth, 0 where there are none.
CREATE FUNCTION pgqueue_nested_since_v1(depth integer) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT min(mark::bigint)
    FROM string_to_table(substring(current_setting('pgqueue.nested', true) FROM '^\d{1,18}(?: \d{1,18})*$'), ' ')
         WITH ORDINALITY AS each (mark, depth)
    WHERE each.depth > $1 AND mark::bigint > 0
$$;

-- Remember that: what is deeper has been dealt with, and is this trigger's now.
CREATE FUNCTION pgqueue_note_nested_v1(depth integer, since bigint, first bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    marks text[] := string_to_array(
        substring(current_setting('pgqueue.nested', true) FROM '^\d{1,18}(?: \d{1,18})*$'), ' ');
BEGIN
    PERFORM set_config('pgqueue.nested', CASE WHEN $1 = 1 THEN '' ELSE (
        SELECT string_agg(CASE WHEN place < $1 THEN coalesce(marks[place], '0')
                               ELSE least(nullif(marks[place]::bigint, 0), $2, $3)::text END, ' ' ORDER BY place)
        FROM generate_series(1, $1) AS place) END, true);
END $$;

-- Whether a row that is seen was stored by the current transaction: all others have ended.
CREATE FUNCTION pgqueue_is_own_v1(stored xid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_xact_status((newest - ((newest - $1::text::bigint + 2147483648) & 4294967295) + 2147483648)::text::xid8) = 'in progress'
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS newest OFFSET 0) s
$$;

-- The keys of which events were published both within a statement and by it.
CREATE FUNCTION pgqueue_nested_keys_v1(topic text, since bigint, first bigint) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(key)
    FROM (
        SELECT key FROM pgqueue_event_inbox e
        WHERE id >= $2 AND id < $3 AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
        INTERSECT
        SELECT key FROM pgqueue_event_inbox e
        WHERE id > $3 AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)) both_have
$$;

-- What was published within a statement of each of these keys: what the first event has as the old row, and the last one as
-- the new.
CREATE FUNCTION pgqueue_nested_v1(topic text, keys text[], since bigint, first bigint)
RETURNS TABLE (key text, was jsonb, became jsonb) LANGUAGE sql STABLE AS $$
    SELECT e.key, (array_agg(e.payload -> 'old' ORDER BY e.id))[1], (array_agg(e.payload -> 'new' ORDER BY e.id DESC))[1]
    FROM pgqueue_event_inbox e
    WHERE e.id >= $3 AND e.id < $4 AND e.key = ANY ($2) AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
    GROUP BY e.key
$$;

-- Have events that were published within a statement behind those of the statement, in their order.
CREATE FUNCTION pgqueue_publish_behind_v1(topic text, keys text[], since bigint, first bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH moved AS (
        DELETE FROM pgqueue_event_inbox e
        WHERE id >= $3 AND id < $4 AND e.key = ANY ($2) AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
        RETURNING *)
    INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata, created_at)
    SELECT moved.topic, key, payload, metadata, created_at FROM moved ORDER BY id;
END $$;
