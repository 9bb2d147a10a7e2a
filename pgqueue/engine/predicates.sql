-- name: is_on
SELECT coalesce((SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %(role)s), false)

-- name: user
SELECT quote_ident(session_user)

-- name: tree
SELECT ev_action::text FROM pg_rewrite WHERE ev_class = to_regclass('pg_temp.pgqueue_checked')

-- name: foreign
-- What is not PostgreSQL's own, or may change something, or looks at more than its arguments. A volatile function
-- might change something: set_config() could give the role of the session back. A stable one may look: table_to_xml()
-- at tables, pg_stat_get_backend_activity() at what others do, and current_setting() at what code keeps in the session.
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE (p.oid = ANY (%(functions)s::oid[])
       OR p.oid IN (SELECT oprcode FROM pg_operator WHERE oid = ANY (%(operators)s::oid[])))
  AND (p.pronamespace <> 'pg_catalog'::regnamespace OR p.provolatile = 'v'
       OR p.provolatile = 's'
          AND p.proname ~ '^(pg_|txid_|has_|to_reg|inet_|row_security)|_to_xml|^current_setting$|_description$')
UNION
SELECT t.oid::regtype::text
FROM pg_type t
WHERE t.oid = ANY (%(types)s::oid[])
  AND (t.typnamespace <> 'pg_catalog'::regnamespace OR t.typtype NOT IN ('b', 'p', 'r', 'm')
       OR t.typname ~ '^reg')
ORDER BY 1

-- name: evaluate
SELECT e.position, s.name
FROM jsonb_to_recordset({events}) AS e (
    position bigint, topic text, key text, payload jsonb, metadata jsonb, created_at timestamptz)
CROSS JOIN jsonb_to_recordset({subscriptions}) AS s (
    name text, params jsonb, is_any boolean, exact text[], regex text, path text, vars jsonb)
WHERE (s.is_any OR e.topic = ANY (s.exact) OR s.regex <> '' AND e.topic ~ s.regex)
  AND (s.path = '' OR jsonb_path_match(coalesce(e.payload, 'null'), s.path::jsonpath, s.vars, true))
  AND ({predicate})
