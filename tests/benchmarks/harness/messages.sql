-- name: empty
TRUNCATE pgqueue_message, pgqueue_history, pgqueue_policy, pgqueue_lane, pgqueue_gate, pgqueue_bell

-- name: store_evenly
-- As a producer stores them: they arrive of one key after the other, round and round.
INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts, ordered, governed)
SELECT %(channel)s, 'k' || n %% %(keys)s, %(task)s, %(payload)s::jsonb, 'ready', 5, %(ordered)s, %(governed)s
FROM generate_series(0, %(count)s - 1) AS n

-- name: ring
INSERT INTO pgqueue_bell (channel, key)
SELECT %(channel)s, 'k' || n FROM generate_series(0, %(keys)s - 1) AS n

-- name: limit
INSERT INTO pgqueue_policy (channel, scope, max_running, rate, burst)
VALUES (%(channel)s, %(scope)s, %(max_running)s, %(rate)s, %(burst)s)

-- name: started
-- How many began, and in which time.
SELECT count(*), extract(epoch FROM max(claimed_at) - min(claimed_at))::float8 FROM pgqueue_history

-- name: store
INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts)
SELECT %(channel)s, '', %(task)s, %(payload)s::jsonb, 'ready', 5
FROM generate_series(1, %(count)s)

-- name: store_in_keys
-- Of 13 messages that arrive, 3 are of the deep key, and the other 10 go round the shallow
-- ones. These sort by a hash: the order of keys is not the one in which rows lie on disk.
INSERT INTO pgqueue_message (channel, key, task, payload, state, max_attempts)
SELECT %(channel)s,
       CASE WHEN n %% 13 < 3 THEN %(deep)s
            ELSE md5(((n / 13 * 10 + n %% 13 - 3) %% %(keys)s)::text) END,
       %(task)s, %(payload)s::jsonb, 'ready', 5
FROM generate_series(0, %(count)s - 1) AS n

-- name: ended
SELECT count(*) FILTER (WHERE outcome = 'succeeded'), min(claimed_at) FROM pgqueue_history
