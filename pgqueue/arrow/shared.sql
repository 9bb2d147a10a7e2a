-- name: no_timeouts
-- For this transaction only, since a pooler may lend the connection to another client next. The server's
-- version decides which time-outs exist.
SELECT set_config(s.name, '0', true)
FROM pg_settings s
WHERE s.name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
