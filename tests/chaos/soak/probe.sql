-- name: configure
-- What the bursts leave in history goes a minute later, so that purging is part of the run.
INSERT INTO pgqueue_channel (name, retention)
VALUES ('probe', interval '1 minute'), ('probe, governed', interval '1 minute')

-- name: limit
INSERT INTO pgqueue_policy (channel, scope, key, max_running) VALUES ('probe, governed', 'each', '', 4)

-- name: burst
-- In keys that take turns, in transactions of their own, in order, and limited.
SELECT min(id), count(*) FROM (
    SELECT pgqueue_enqueue('tests.chaos.tasks.nothing', '{"args": [-1], "kwargs": {}}', 'probe', (n % 20)::text) AS id
    FROM generate_series(1, 3000) n
    UNION ALL
    SELECT pgqueue_enqueue('tests.chaos.tasks.nothing_atomic', '{"args": [-1], "kwargs": {}}', 'probe')
    FROM generate_series(1, 600) n
    UNION ALL
    SELECT pgqueue_enqueue('tests.chaos.tasks.nothing', '{"args": [-1], "kwargs": {}}', 'probe, governed', 'o' || n / 12, ordered => true)
    FROM generate_series(0, 1199) n
    UNION ALL
    SELECT pgqueue_enqueue('tests.chaos.tasks.nothing', '{"args": [-1], "kwargs": {}}', 'probe, governed', 'l' || n % 30)
    FROM generate_series(1, 1200) n) burst

-- name: busy
-- What the load has left that runs, or could.
SELECT count(*) FROM pgqueue_message
WHERE state IN ('ready', 'running') AND channel IN ('default', 'ordered', 'limited', 'pulled')

-- name: left
SELECT count(*) FROM pgqueue_message WHERE id >= %(first)s AND channel IN ('probe', 'probe, governed')

-- name: took
SELECT channel, extract(epoch FROM max(finished_at) - %(committed_at)s)::float
FROM pgqueue_history
WHERE id >= %(first)s AND channel IN ('probe', 'probe, governed')
GROUP BY channel
