-- name: prepare
-- The transaction is idle all the time: no time-out may end it.
-- include: no_timeouts

-- name: export
SELECT pg_export_snapshot()

-- name: look_again
-- Within a transaction, statistics are cached at the first look.
SELECT pg_stat_clear_snapshot()

-- name: readers
SELECT count(*) FROM pg_stat_activity WHERE application_name = %(name)s
