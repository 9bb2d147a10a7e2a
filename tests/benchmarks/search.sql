-- name: fill
-- Ended messages of sixteen days, as many of each. Rows of one tenant, and of one tag, lie far apart.
INSERT INTO pgqueue_history (id, channel, key, task, payload, metadata, priority, run_at, attempt, failures, lost, max_attempts,
                             ordered, errors, created_at, started_at, outcome, result, finished_at)
SELECT n, 'mail', 'k' || n %% 1000, 'shop.tasks.send_receipt',
       jsonb_build_object('args', jsonb_build_array(n), 'kwargs', jsonb_build_object(
           'order', n, 'customer', n %% 50000, 'country', n %% 10, 'template', 'receipt with a logo, in two colours')),
       jsonb_build_object('tenant', 'tenant ' || n %% 5000, 'traceparent', md5(n::text),
                          'tags', jsonb_build_array('import ' || n %% 20000)),
       0, statement_timestamp(), 1, 0, 0, 5, false, '[]', statement_timestamp(), statement_timestamp(), 'succeeded',
       'null', date_trunc('day', statement_timestamp(), 'UTC') + (n %% 16 - 1) * interval '1 day' + interval '1 hour'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n

-- name: enqueue
INSERT INTO pgqueue_message (channel, key, task, payload, metadata, state, max_attempts)
SELECT 'mail', 'k' || n %% 1000, 'shop.tasks.send_receipt',
       jsonb_build_object('args', jsonb_build_array(n), 'kwargs', jsonb_build_object('order', n, 'customer', n %% 50000)),
       jsonb_build_object('tenant', 'tenant ' || n %% 5000), 'ready', 5
FROM generate_series(1, %(count)s::bigint) AS n

-- name: claim
UPDATE pgqueue_message SET state = 'running', claimed_at = statement_timestamp()

-- name: end
DELETE FROM pgqueue_message

-- name: read_all
-- Without an index: every row of the history.
SELECT id FROM pgqueue_history WHERE payload @@ %(path)s::jsonpath OR metadata @@ %(path)s::jsonpath

-- name: size
SELECT sum(pg_relation_size(x.indexrelid)) / 1e6
FROM pg_index x JOIN pg_inherits i ON i.inhrelid = x.indexrelid
WHERE i.inhparent = 'pgqueue_history_search'::regclass
