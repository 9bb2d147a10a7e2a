-- name: no_timeouts
-- For this transaction only, since a pooler may lend the connection to others next. Servers differ in what
-- time-outs they have.
SELECT set_config(s.name, '0', true)
FROM pg_settings s
WHERE s.name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
