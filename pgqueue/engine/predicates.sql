-- name: is_on
SELECT coalesce((SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = %(role)s), false)

-- name: user
SELECT quote_ident(session_user)

-- name: tree
SELECT ev_action::text FROM pg_rewrite WHERE ev_class = to_regclass('pg_temp.pgqueue_checked')

-- name: foreign
-- What is not PostgreSQL's own, or may change something. A volatile function might: set_config() could give
-- the role of the session back.
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE (p.oid = ANY (%(functions)s::oid[])
       OR p.oid IN (SELECT oprcode FROM pg_operator WHERE oid = ANY (%(operators)s::oid[])))
  AND (p.pronamespace <> 'pg_catalog'::regnamespace OR p.provolatile = 'v')
  -- The statement itself has these two.
  AND p.proname <> 'jsonb_to_recordset'
UNION
SELECT t.oid::regtype::text
FROM pg_type t
WHERE t.oid = ANY (%(types)s::oid[])
  AND (t.typnamespace <> 'pg_catalog'::regnamespace OR t.typtype NOT IN ('b', 'p', 'r', 'm'))
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
