-- name: server
-- The process of this session, and the WAL that was written so far, in bytes.
SELECT pg_backend_pid(), (pg_current_wal_insert_lsn() - '0/0')::float8
