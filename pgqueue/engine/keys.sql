-- name: by_key
-- Each kind is read by its index, in the order of the keys, so that the bound cuts off the last keys.
SELECT key, count(*) FILTER (WHERE kind = 'running'), count(*) FILTER (WHERE kind = 'ready'),
       count(*) FILTER (WHERE kind = 'waiting')
FROM (
    (SELECT m.key, 'running' AS kind FROM pgqueue_message m
     WHERE m.state = 'running' AND m.channel = %(channel)s AND m.key >= %(first)s AND m.key <= %(last)s
     ORDER BY m.key
     LIMIT %(bound)s)
    UNION ALL
    (SELECT m.key, 'ready' FROM pgqueue_message m
     WHERE m.state = 'ready' AND NOT m.governed AND m.channel = %(channel)s
       AND m.key >= %(first)s AND m.key <= %(last)s
     ORDER BY m.key, m.rank, m.run_at, m.id
     LIMIT %(bound)s)
    UNION ALL
    (SELECT m.key, 'ready' FROM pgqueue_message m
     WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = %(channel)s
       AND m.key >= %(first)s AND m.key <= %(last)s
     ORDER BY m.key, m.rank, m.run_at, m.id
     LIMIT %(bound)s)
    UNION ALL
    -- A message that is ready but not governed yet is counted above.
    (SELECT m.key, CASE WHEN m.state = 'ready' AND m.governed THEN 'ready' ELSE '' END
     FROM pgqueue_message m
     WHERE m.ordered AND m.state IN ('held', 'scheduled', 'ready', 'running') AND m.channel = %(channel)s
       AND m.key >= %(first)s AND m.key <= %(last)s
     ORDER BY m.key, m.id
     LIMIT %(bound)s)
    UNION ALL
    (SELECT m.key, 'waiting' FROM pgqueue_message m
     WHERE m.state IN ('held', 'scheduled') AND m.channel = %(channel)s
       AND m.key >= %(first)s AND m.key <= %(last)s
     ORDER BY m.key
     LIMIT %(bound)s)) counted
GROUP BY key
ORDER BY 3 DESC, 2 DESC, key
