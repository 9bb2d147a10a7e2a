-- name: is_on
SELECT coalesce((SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %(role)s), false)

-- name: user
SELECT quote_ident(session_user)

-- name: tree
SELECT ev_action::text FROM pg_rewrite WHERE ev_class = to_regclass('pg_temp.pgqueue_checked')

-- name: foreign
-- The forbidden functions, operators and types: they are not PostgreSQL's own, may change a state, or read more than
-- their arguments. A volatile function may change a state: set_config() could give the role of the session back. A
-- stable function may read other things: table_to_xml() tables, format_type() types, pg_stat_get_backend_activity()
-- other sessions' statements. So each permitted stable function is named here: beside its arguments it reads only the
-- time, its zone, and the session's formats of texts. A function that takes cstring reads a value of any type:
-- domain_in() runs the CHECK of the domain whose number it gets.
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE (p.oid = ANY (%(functions)s::oid[])
       OR p.oid IN (SELECT oprcode FROM pg_operator WHERE oid = ANY (%(operators)s::oid[])))
  AND (p.pronamespace <> 'pg_catalog'::regnamespace OR p.provolatile = 'v'
       OR p.proargtypes::oid[] && ARRAY['cstring', 'internal', 'aclitem', 'xml', 'xid']::regtype[]::oid[]
       OR p.proname ~ '^pg_(partition|walfile|indexam)|^aclitem|^makeaclitem|^acldefault|^xml|_is_well_formed'
       OR p.provolatile = 's' AND p.proname !~ (
              '^(age|now|overlaps|extract|in_range|interval_pl_timestamptz|make_timestamptz|timezone'
              || '|(statement|transaction)_timestamp|date(_add|_subtract|_part|_trunc)?|time|timetz|timestamp|timestamptz'
              || '|(date|timestamp|timestamptz)_(cmp|eq|ge|gt|le|lt|ne|mi|pl)_(date|timestamp|timestamptz|interval)'
              || '|to_(char|date|timestamp|number|json|jsonb)|money|numeric'
              || '|concat|concat_ws|format|quote_literal|quote_nullable|array_to_string|textanycat|anytextcat'
              || '|convert|convert_from|convert_to|length'
              || '|jsonb_to_recordset|array_to_json|row_to_json|jsonb?_build_(array|object)|jsonb_path_(exists|match|query_array|query_first)_tz'
              || '|jsonb?_to_tsvector|to_tsvector|(plain|phrase|websearch_)?to_tsquery|ts_headline|ts_match_t[qt])$'))
UNION
SELECT o.oid::regoperator::text
FROM pg_operator o
WHERE o.oid = ANY (%(operators)s::oid[]) AND o.oprnamespace <> 'pg_catalog'::regnamespace
UNION
SELECT t.oid::regtype::text
FROM pg_type t LEFT JOIN pg_type of ON of.oid = t.typelem AND t.typlen = -1
WHERE t.oid = ANY (%(types)s::oid[])
  AND (t.typnamespace <> 'pg_catalog'::regnamespace OR t.typtype NOT IN ('b', 'p', 'r', 'm')
       OR t.typtype = 'p' AND t.typname NOT IN ('record', 'unknown', '_record')
       OR of.typtype NOT IN ('b', 'p', 'r', 'm')
       OR t.typname ~ '^_?(reg|aclitem$|xml$|pg_)')
UNION
SELECT 'COLLATE ' || c.oid::regcollation::text
FROM pg_collation c
WHERE c.oid = ANY (%(collations)s::oid[]) AND c.collnamespace <> 'pg_catalog'::regnamespace
ORDER BY 1

-- name: confine
-- A name without a schema is PostgreSQL's own.
SELECT set_config('search_path', 'pg_catalog, pg_temp', true)

-- name: hand_over
SELECT set_config('role', %(role)s, true)

-- name: schemas
-- All schemas but PostgreSQL's own; pg_temp is another name of such a schema.
SELECT nspname::text FROM pg_namespace WHERE nspname <> 'pg_catalog' UNION SELECT 'pg_temp'

-- name: evaluate
SELECT e.position, s.name
FROM jsonb_to_recordset({events}) AS e (
    position bigint, topic text, key text, payload jsonb, metadata jsonb, created_at timestamptz, comparable jsonb)
CROSS JOIN jsonb_to_recordset({subscriptions}) AS s (
    name text, params jsonb, is_any boolean, exact text[], regex text, path text, vars jsonb)
WHERE (s.is_any OR e.topic = ANY (s.exact) OR s.regex <> '' AND e.topic ~ s.regex)
  AND (s.path = '' OR jsonb_path_match(coalesce(e.comparable, e.payload, 'null'), s.path::jsonpath, s.vars, true))
  AND ({predicate})

-- name: events
-- The events at some positions as JSON, and the one reader that has the predicate: no further conditions.
SELECT (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')::text FROM pgqueue_event e
        WHERE position = ANY (%(positions)s::bigint[])),
       jsonb_build_array(%(reader)s::jsonb || '{"is_any": true, "regex": "", "path": "", "vars": {}}')::text

-- name: patience
SELECT set_config('statement_timeout', %(patience)s, true)
