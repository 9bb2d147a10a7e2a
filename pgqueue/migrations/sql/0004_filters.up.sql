-- What values of payloads are compared as, by filters (pgqueue/options/filters.py).

-- The number that a text is, exactly; NULL: it is none. Its digits and its exponent are bounded by what numeric has.
CREATE FUNCTION pgqueue_number_v1(value text) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(value) <= 1000 AND value ~ '^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,4})?$'
                THEN value::numeric END
$$;

-- The values that a value stands for in a comparison, itself first. The text of a number is that number, too, and a tagged
-- value is its value. In a list these stand beside each other: a list meets a condition that an item of it does. Nested
-- deeper than `depth`, a value stands for itself alone: PostgreSQL's stack is bounded.
CREATE FUNCTION pgqueue_alternatives_v1(value jsonb, depth int) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    kind text := jsonb_typeof(value);
    written jsonb;
BEGIN
    IF kind = 'string' THEN
        RETURN array_remove(ARRAY[value, to_jsonb(pgqueue_number_v1(value #>> '{}'))], NULL);
    ELSIF depth = 0 OR kind NOT IN ('array', 'object') THEN
        RETURN ARRAY[value];
    ELSIF kind = 'array' THEN
        SELECT coalesce(jsonb_agg(part ORDER BY number, place), '[]') INTO written
        FROM jsonb_array_elements(value) WITH ORDINALITY i (item, number)
        CROSS JOIN LATERAL unnest(CASE
            WHEN jsonb_typeof(item) IN ('array', 'object') THEN pgqueue_alternatives_v1(item, depth - 1)
            WHEN jsonb_typeof(item) = 'string'
            THEN array_remove(ARRAY[item, to_jsonb(pgqueue_number_v1(item #>> '{}'))], NULL)
            ELSE ARRAY[item] END) WITH ORDINALITY p (part, place);
        RETURN ARRAY[written];
    END IF;
    SELECT coalesce(jsonb_object_agg(name, pgqueue_member_v1(item, depth - 1)), '{}') INTO written
    FROM jsonb_each(value) m (name, item);
    IF value ?& '{@,value}' THEN
        RETURN written || pgqueue_alternatives_v1(value -> 'value', depth - 1);
    END IF;
    RETURN ARRAY[written];
END $$;

-- What stands in the place of one value: several are a list. One of them may be a list, whose items are then among them.
CREATE FUNCTION pgqueue_member_v1(value jsonb, depth int) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    alternatives jsonb[] := pgqueue_alternatives_v1(value, depth);
BEGIN
    IF cardinality(alternatives) = 1 THEN
        RETURN alternatives[1];
    END IF;
    RETURN (SELECT jsonb_agg(part)
            FROM unnest(alternatives) a (one)
            CROSS JOIN LATERAL jsonb_array_elements(
                CASE jsonb_typeof(one) WHEN 'array' THEN one ELSE jsonb_build_array(one) END) p (part));
END $$;

-- A payload for the paths of filters. They compare short texts of numbers and tagged scalars themselves; only payloads with
-- others are written out.
CREATE FUNCTION pgqueue_comparable_v1(payload jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN jsonb_path_match(payload,
            'exists($.** ? (@ like_regex "^-?[0-9.]{15}|^-?[0-9.]+[eE]")) || exists($.**."@") && exists($.** ? (exists(@."@") && (@."value".type() == "object" || @."value".type() == "array")))',
            '{}', true)
        THEN pgqueue_member_v1(payload, 50) ELSE payload END
$$;
