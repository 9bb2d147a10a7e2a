-- Table events: what the triggers that `TrackTable` makes call, and what shows their trail.

-- The columns that differ, with their new values. A column that is missing now is null.
CREATE FUNCTION pgqueue_diff_v1(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(jsonb_object_agg(name, $2 -> name), '{}')
    FROM jsonb_object_keys(coalesce($1, '{}') || coalesce($2, '{}')) AS name
    WHERE $1 -> name IS DISTINCT FROM $2 -> name
$$;

-- Who acts, and why, as the transaction says: a JSON object, or a text, which is the user.
CREATE FUNCTION pgqueue_acting_v1() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN said IS NULL OR said = '' THEN '{}'
                WHEN said LIKE '{%' THEN said::jsonb
                ELSE jsonb_build_object('user', said) END
    FROM (SELECT current_setting('pgqueue.acting', true) OFFSET 0) AS setting (said)
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

-- The newest events of a key in a partition of the log. The planner thinks that the index of `IndexTrail` finds
-- nothing, and with a LIMIT it would walk the whole partition by position.
CREATE FUNCTION pgqueue_trail_v1(part oid, topics text[], key text, most integer)
RETURNS SETOF pgqueue_event LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = $1) THEN
        RETURN;  -- retention has just removed it
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT position, topic, key, payload, metadata, created_at FROM %s
         WHERE key = $1 AND topic = ANY ($2) ORDER BY position DESC LIMIT $3', $1::regclass)
    USING $3, $2, $4;
END $$;
