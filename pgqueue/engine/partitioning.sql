-- name: raise_floor
-- Before a partition is dropped: a reader that is behind compares its position with the floor.
INSERT INTO pgqueue_log_floor (log, position) VALUES (%(log)s, %(position)s)
ON CONFLICT (log) DO UPDATE SET position = greatest(pgqueue_log_floor.position, excluded.position)

-- name: try_for_session
-- One session at a time drops partitions of a log.
SELECT pg_try_advisory_lock(%(table)s::regclass::oid::bigint)

-- name: leave
SELECT pg_advisory_unlock(%(table)s::regclass::oid::bigint)

-- name: try_for_transaction
SELECT pg_try_advisory_xact_lock(%(table)s::regclass::oid::bigint)

-- name: is_another_pending
-- Whether an operator's detach of a partition has begun and not ended, for example since it was cancelled. Until somebody
-- finalizes it, PostgreSQL detaches no other partition concurrently.
SELECT EXISTS (
    SELECT FROM pg_inherits
    WHERE inhparent = %(table)s::regclass AND inhdetachpending
      AND obj_description(inhrelid, 'pg_class') IS DISTINCT FROM %(mark)s)

-- name: rights
-- The statements that grant the other roles' rights on the table on its partition, too.
SELECT 'GRANT ' || string_agg(a.privilege_type, ', ') || ' ON ' || %(table)s::text || ' TO '
       || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END
FROM pg_class c
CROSS JOIN LATERAL aclexplode(c.relacl) AS a
LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE c.oid = %(parent)s::regclass AND a.grantee <> c.relowner
GROUP BY a.grantee, r.rolname
