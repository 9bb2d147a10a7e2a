-- name: snapshot
SELECT pg_export_snapshot()

-- name: settings
-- The settings that this transaction has set, and the settings of pgqueue that a query reads.
SELECT s.name, s.setting FROM pg_settings s WHERE s.source = 'session' AND s.context = 'user'
  AND s.name NOT IN ('application_name', 'lock_timeout', 'transaction_isolation', 'transaction_read_only',
                     'transaction_deferrable')
UNION ALL
SELECT g.name, current_setting(g.name, true) FROM unnest(%(names)s::text[]) AS g (name)
WHERE current_setting(g.name, true) <> ''
