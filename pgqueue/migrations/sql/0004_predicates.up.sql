-- The role that evaluates predicates in SQL: it has no rights, and nobody logs in as it. All databases of a
-- cluster share it. Where this user may make no roles, such predicates are off until a superuser makes it.
DO $$
BEGIN
    BEGIN
        CREATE ROLE pgqueue_predicates NOLOGIN NOINHERIT;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    IF NOT pg_has_role(session_user, 'pgqueue_predicates', 'MEMBER') THEN
        EXECUTE format('GRANT pgqueue_predicates TO %I', session_user);
    END IF;
EXCEPTION
    WHEN insufficient_privilege OR undefined_object OR unique_violation OR internal_error THEN NULL;
END $$;
