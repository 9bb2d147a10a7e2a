-- Which database this is, for what is remembered outside of it. A copy by CREATE DATABASE, by a dump or by a base backup
-- has the same row: PostgreSQL's own number of the cluster and of the database tell it apart (engine/identity).
CREATE TABLE pgqueue_identity (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    id uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO pgqueue_identity DEFAULT VALUES;

UPDATE pgqueue_export
SET database = (SELECT system_identifier FROM pg_control_system()) || '/' ||
               (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' ||
               (SELECT id FROM pgqueue_identity);
ALTER TABLE pgqueue_export ADD CONSTRAINT pgqueue_export_database CHECK (octet_length(database) <= 100);

-- Roles that a project has made by itself, and that read the log or remove what was exported, go on to do so.
DO $$
DECLARE
    reader record;
BEGIN
    FOR reader IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS name
        FROM pg_class c
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid IN ('pgqueue_history'::regclass, 'pgqueue_event'::regclass, 'pgqueue_export'::regclass)
          AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON pgqueue_identity TO %s', reader.name);
    END LOOP;
END $$;
