-- name: empty
TRUNCATE pgqueue_message, pgqueue_history

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
