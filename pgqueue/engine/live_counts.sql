-- name: counts
-- Counts of each channel by its indexes, up to a bound, and the age of the oldest message that was counted.
-- Ordered messages, and waiting messages, are counted for all their states together.
SELECT c.channel,
       free.seen, governed.seen, ordered.seen, ordered.ready,
       waiting.seen, waiting.scheduled, waiting.held, running.seen, dead.seen,
       extract(epoch FROM statement_timestamp()
                          - least(free.oldest, governed.oldest, ordered.oldest))::float8,
       pause.name IS NOT NULL, pause.paused_until
FROM unnest(%(channels)s::text[]) AS c (channel)
LEFT JOIN LATERAL (
    SELECT name, paused_until FROM pgqueue_channel
    WHERE name = c.channel AND
-- include: is_paused
    ) pause ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS seen,
-- include: oldest
    AS oldest FROM (
        SELECT m.run_at FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed AND m.channel = c.channel
        ORDER BY m.key, m.rank, m.run_at, m.id
        LIMIT %(bound)s + 1) f) free
CROSS JOIN LATERAL (
    SELECT count(*) AS seen,
-- include: oldest
    AS oldest FROM (
        SELECT m.run_at FROM pgqueue_message m
        WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = c.channel
        ORDER BY m.key, m.rank, m.run_at, m.id
        LIMIT %(bound)s + 1) g) governed
CROSS JOIN LATERAL (
    SELECT count(*) AS seen, count(*) FILTER (WHERE is_ready) AS ready,
-- include: oldest
           FILTER (WHERE is_ready) AS oldest
    FROM (
        -- A message that is ready but not governed yet is counted as free.
        SELECT m.run_at, m.state = 'ready' AND m.governed AS is_ready FROM pgqueue_message m
        WHERE m.ordered AND m.state IN ('held', 'scheduled', 'ready', 'running') AND m.channel = c.channel
        ORDER BY m.key, m.id
        LIMIT %(bound)s + 1) o) ordered
CROSS JOIN LATERAL (
    SELECT count(*) AS seen, count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
           count(*) FILTER (WHERE state = 'held') AS held
    FROM (
        SELECT m.state FROM pgqueue_message m
        WHERE m.state IN ('held', 'scheduled') AND m.channel = c.channel
        ORDER BY m.key
        LIMIT %(bound)s + 1) w) waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS seen FROM (
        SELECT FROM pgqueue_message m
        WHERE m.state = 'running' AND m.channel = c.channel
        ORDER BY m.key
        LIMIT %(bound)s + 1) r) running
CROSS JOIN LATERAL (
    SELECT count(*) AS seen FROM (
        SELECT FROM pgqueue_message m
        WHERE m.state = 'dead' AND m.channel = c.channel
        ORDER BY m.key, m.id
        LIMIT %(bound)s + 1) d) dead

-- name: oldest
-- The bounds replace infinite times, which have no age.
min(greatest(least(run_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'))

-- name: sample
-- For each channel and state: the count in some pages of the table, scaled to all its pages.
SELECT m.channel, m.state, count(*) * greatest(table_size.pages::float8 / %(pages)s, 1)
FROM
-- include: table_size
CROSS JOIN LATERAL (
    SELECT channel, state
    FROM pgqueue_message
-- include: some_pages
    ) m
WHERE m.channel = ANY (%(channels)s::text[])
GROUP BY m.channel, m.state, table_size.pages

-- name: table_size
(SELECT pg_relation_size('pgqueue_message') / current_setting('block_size')::int AS pages) table_size

-- name: some_pages
TABLESAMPLE SYSTEM (least(100, 100 * %(pages)s / greatest(table_size.pages, 1)::float8)::real)

-- name: tenant_of_message
CASE WHEN jsonb_typeof(metadata -> 'tenant') = 'string' THEN metadata ->> 'tenant' END AS tenant

-- name: by_tenant
-- The messages by the tenant that the metadata name: all of them up to the bound, beyond it as `sample` counts. A table
-- stays as large as it ever was, and a sample of it misses a few messages. The tenants with the most messages are told apart.
WITH first AS MATERIALIZED (
    SELECT
-- include: tenant_of_message
           , state
    FROM pgqueue_message
    ORDER BY id
    LIMIT %(bound)s + 1
), counted AS (
    SELECT tenant, state, count(*) AS number
    FROM first
    WHERE tenant IS NOT NULL AND (SELECT count(*) FROM first) <= %(bound)s
    GROUP BY tenant, state
    UNION ALL
    SELECT m.tenant, m.state, round(count(*) * greatest(table_size.pages::float8 / %(pages)s, 1))::bigint
    FROM
-- include: table_size
    CROSS JOIN LATERAL (
        SELECT
-- include: tenant_of_message
               , state
        FROM pgqueue_message
-- include: some_pages
        ) m
    WHERE m.tenant IS NOT NULL AND (SELECT count(*) FROM first) > %(bound)s
    GROUP BY m.tenant, m.state, table_size.pages
), ranked AS (
    SELECT tenant, row_number() OVER (ORDER BY sum(number) DESC, tenant) AS n FROM counted GROUP BY tenant
)
SELECT CASE WHEN n <= %(limit)s THEN tenant ELSE %(other)s END AS name, state, sum(number)::bigint
FROM counted JOIN ranked USING (tenant)
GROUP BY name, state
ORDER BY min(n), state

-- name: first_of_each
-- The age of each channel's oldest ready message in seconds. The first message of each key and priority is
-- its oldest; a probe leads from one to the next. The last column tells whether all of them were read.
WITH RECURSIVE free AS (
    SELECT c.channel, first.key, first.rank, first.run_at, 1 AS n
    FROM unnest(%(channels)s::text[]) AS c (channel) CROSS JOIN LATERAL (
        SELECT m.key, m.rank, m.run_at
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed AND m.channel = c.channel
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) first
    UNION ALL
    SELECT free.channel, next.key, next.rank, next.run_at, free.n + 1
    FROM free CROSS JOIN LATERAL (
        SELECT m.key, m.rank, m.run_at
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND NOT m.governed AND m.channel = free.channel
          AND (m.key, m.rank) > (free.key, free.rank)
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) next
    WHERE free.n < %(reach)s
), governed AS (
    SELECT c.channel, first.key, first.rank, first.run_at, 1 AS n
    FROM unnest(%(channels)s::text[]) AS c (channel) CROSS JOIN LATERAL (
        SELECT m.key, m.rank, m.run_at
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = c.channel
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) first
    UNION ALL
    SELECT governed.channel, next.key, next.rank, next.run_at, governed.n + 1
    FROM governed CROSS JOIN LATERAL (
        SELECT m.key, m.rank, m.run_at
        FROM pgqueue_message m
        WHERE m.state = 'ready' AND m.governed AND NOT m.ordered AND m.channel = governed.channel
          AND (m.key, m.rank) > (governed.key, governed.rank)
        ORDER BY m.key, m.rank, m.run_at, m.id LIMIT 1) next
    WHERE governed.n < %(reach)s
)
SELECT channel, extract(epoch FROM statement_timestamp() -
-- include: oldest
    )::float8, max(n) < %(reach)s
FROM (SELECT channel, run_at, n FROM free UNION ALL SELECT channel, run_at, n FROM governed) firsts
GROUP BY channel

-- name: rates
-- Enqueued and ended messages per second over the last minute, or over the time of the last 10 000 messages if
-- this is shorter. The newest messages are found by their ids, live or ended, the last ended ones by the order of
-- transactions. So no scan reads older rows.
WITH recent AS MATERIALIZED (
    SELECT statement_timestamp() AS now, statement_timestamp() - interval '1 minute' AS since,
           (SELECT last_value FROM pgqueue_message_id_seq) - %(reach)s AS after
), begun AS MATERIALIZED (
    SELECT m.channel, m.created_at
    FROM pgqueue_message m
    WHERE m.id > (SELECT after FROM recent)
    UNION ALL
    SELECT h.channel, h.created_at
    FROM pgqueue_history h
    WHERE h.id > (SELECT after FROM recent)
      AND h.finished_at >= date_trunc('day', statement_timestamp(), 'UTC') - interval '1 day'
      AND h.finished_at < date_trunc('day', statement_timestamp(), 'UTC') + interval '1 day'
), ended AS MATERIALIZED (
    SELECT h.channel, h.finished_at
    FROM pgqueue_history h
    WHERE h.finished_at >= date_trunc('day', statement_timestamp(), 'UTC') - interval '1 day'
      AND h.finished_at < date_trunc('day', statement_timestamp(), 'UTC') + interval '1 day'
    ORDER BY h.txid DESC, h.id DESC
    LIMIT %(reach)s
), spans AS MATERIALIZED (
    -- If fewer than half of the newest ids are found, they go back for days, or were rolled back.
    SELECT CASE WHEN (SELECT count(*) FROM begun) < %(reach)s / 2 THEN since
                ELSE greatest(since, (SELECT min(created_at) FROM begun)) END AS begun_since,
           CASE WHEN (SELECT count(*) FROM ended) < %(reach)s THEN since
                ELSE greatest(since, (SELECT min(finished_at) FROM ended)) END AS ended_since,
           now
    FROM recent
), counted AS (
    SELECT channel, count(*) AS enqueued, 0 AS finished
    FROM begun WHERE created_at >= (SELECT begun_since FROM spans) GROUP BY channel
    UNION ALL
    SELECT channel, 0, count(*)
    FROM ended WHERE finished_at >= (SELECT ended_since FROM spans) GROUP BY channel
)
SELECT channel,
       sum(enqueued)::float8 / greatest(extract(epoch FROM spans.now - spans.begun_since), 0.001)::float8,
       sum(finished)::float8 / greatest(extract(epoch FROM spans.now - spans.ended_since), 0.001)::float8
FROM counted, spans
WHERE channel = ANY (%(channels)s::text[])
GROUP BY channel, spans.now, spans.begun_since, spans.ended_since

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
