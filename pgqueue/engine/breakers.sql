-- name: seen
-- The breakers of a channel, of some of its keys (NULL: all), or of all channels (NULL). The open ones come first.
SELECT channel, key, state, open_until, CASE WHEN state = 'probing' THEN probe_id END, failures, breaker_failures
FROM (
-- include: judged
) seen
WHERE (%(channel)s::text IS NULL OR channel = %(channel)s) AND (%(keys)s::text[] IS NULL OR key = ANY (%(keys)s))
ORDER BY state = 'closed', channel, key
LIMIT %(limit)s

-- name: judged
-- Each breaker that a policy asks for, with its state and its failures that count.
SELECT *, CASE WHEN open_until IS NULL THEN 'closed'
               WHEN let_through > 0 THEN 'half-open'
               WHEN open_until > statement_timestamp() THEN 'open'
               ELSE 'probing' END AS state
FROM (
    SELECT b.channel, b.key, b.open_until, b.probe_id, own.breaker_failures,
           cardinality(pgqueue_failed_lately_v1(b.failed_at, own.breaker_within)) AS failures,
-- include: let_through_by_b
           AS let_through
    FROM pgqueue_breaker b
    CROSS JOIN LATERAL pgqueue_breaker_of_v1(b.channel, b.key) own (breaker_failures, breaker_within, breaker_pause)) b

-- name: stopping
-- For each channel with a breaker, how many of its breakers are open or wait for their probe.
SELECT p.channel, count(seen.key)
FROM (SELECT DISTINCT channel FROM pgqueue_policy WHERE breaker_failures IS NOT NULL) p
LEFT JOIN (
-- include: judged
) seen ON seen.channel = p.channel AND seen.state IN ('open', 'probing')
GROUP BY p.channel
ORDER BY count(seen.key) DESC, p.channel

-- name: close
-- Close the breakers of a channel and its keys, and wake its workers.
WITH found AS MATERIALIZED (
    SELECT key FROM pgqueue_breaker
    WHERE channel = %(channel)s AND open_until IS NOT NULL
    ORDER BY key
    FOR UPDATE
), closed AS (
    DELETE FROM pgqueue_breaker WHERE channel = %(channel)s AND key IN (SELECT key FROM found) RETURNING key
), rung AS (
    INSERT INTO pgqueue_bell (channel) SELECT %(channel)s WHERE EXISTS (SELECT FROM closed) RETURNING channel
), told AS (
    SELECT pgqueue_tell_v1(channel) FROM rung
)
SELECT count(*), (SELECT count(*) FROM told) FROM closed
