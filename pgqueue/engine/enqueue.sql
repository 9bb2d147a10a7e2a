-- Producers only insert. They neither wait for other transactions nor make them wait, except for messages
-- that are ordered, deduplicated or limited in number.

-- name: enqueue
-- A function, so that plain SQL can store messages in the same way. Its plans are kept, while Django's
-- connections plan each statement again.
SELECT id, state, due_at, created_at, is_told, came_of
FROM pgqueue_enqueue_v1(
    %(channel)s, %(key)s, %(task)s, %(payload)s::jsonb, %(body)s, %(metadata)s::jsonb, %(options)s::jsonb,
    %(priority)s::smallint, %(max_attempts)s, %(run_at)s, %(run_after)s::interval, %(expires_at)s, %(expires_after)s::interval,
    %(held_for)s::interval, %(ordered)s, %(dedupe_key)s, %(dedupe_for)s::interval, %(replaces)s, %(parent_id)s, %(id)s,
    %(flow_id)s, %(waits)s)

-- name: enqueue_now
-- Enqueue a message in the most frequent case, with fewer parameters.
SELECT pgqueue_enqueue_now_v1(
    %(channel)s, %(key)s, %(task)s, %(payload)s::jsonb, %(body)s, %(metadata)s::jsonb, %(options)s::jsonb,
    %(priority)s::smallint, %(max_attempts)s, %(expires_at)s, %(expires_after)s::interval, %(parent_id)s)

-- name: enqueue_each
-- Store several messages in the order of their dedupe keys, so that two producers of the same keys do not
-- deadlock. The batches in Python sort messages in the same way. Ordered messages have their ids already. The
-- results are returned in the order of the input.
SELECT stored.id, stored.state, stored.due_at, stored.created_at, stored.is_told, stored.came_of
FROM (
    SELECT number, payload, body, key, dedupe_key, id
    FROM unnest(%(payloads)s::text[], %(bodies)s::bytea[], %(keys)s::text[], %(dedupe_keys)s::text[], %(ids)s::bigint[])
        WITH ORDINALITY AS given (payload, body, key, dedupe_key, id, number)
    ORDER BY dedupe_key COLLATE "C", number
    OFFSET 0) each
CROSS JOIN LATERAL pgqueue_enqueue_v1(
    %(channel)s, each.key, %(task)s, each.payload::jsonb, each.body, %(metadata)s::jsonb, %(options)s::jsonb,
    %(priority)s::smallint, %(max_attempts)s, %(run_at)s, %(run_after)s::interval, %(expires_at)s, %(expires_after)s::interval,
    %(held_for)s::interval, %(ordered)s, each.dedupe_key, %(dedupe_for)s::interval, %(replaces)s, %(parent_id)s, each.id,
    %(flow_id)s, %(waits)s) AS stored
ORDER BY each.number

-- name: is_remembered
SELECT EXISTS (
    SELECT FROM pgqueue_dedupe
    WHERE channel = %(channel)s AND dedupe_key = %(dedupe_key)s AND expires_at > statement_timestamp())

-- name: bound_wait
-- Have messages that were replaced wait no longer than `longest_wait` since they were first stored. The rows are
-- locked already: the transaction has replaced them.
WITH changed AS (
    UPDATE pgqueue_message
    SET run_at = created_at + %(longest_wait)s::interval,
        state = CASE WHEN created_at + %(longest_wait)s::interval <= statement_timestamp() THEN 'ready' ELSE state END,
        governed =
-- include: governed_anew
    WHERE id = ANY (%(ids)s::bigint[]) AND state || '' = 'scheduled'
      AND run_at > created_at + %(longest_wait)s::interval
    RETURNING id, channel, key, state, governed, run_at
),
-- include: told
SELECT id, state, run_at,
       CASE state WHEN 'ready' THEN (SELECT count(*) FROM told) > 0 ELSE pgqueue_tell_promoter_v1(run_at) END
FROM changed

-- name: reserve
-- Ids for messages that are inserted later.
SELECT pgqueue_reserve_v1(%(count)s)

-- name: keep_order
-- Take the locks before the ids, and in the order of the lanes, as every transaction with several locks does.
-- include: order_kept

-- name: rooms
-- How many more messages channels (key NULL) and their keys may have. Locks are taken in this order;
-- a channel without max_size takes none.
-- include: rooms_kept

-- name: max_sizes
-- The max_size of the channel, and of the key: the key's own policy replaces the policy for each key.
SELECT (SELECT max_size FROM pgqueue_policy WHERE channel = %(channel)s AND scope = 'channel'),
       (SELECT max_size FROM pgqueue_policy
        WHERE channel = %(channel)s AND (scope = 'each' OR scope = 'key' AND key = %(key)s)
        ORDER BY scope DESC LIMIT 1)

-- name: bounds_keys
-- Return whether a policy limits the size of keys in a channel of the list.
SELECT EXISTS (
    SELECT FROM pgqueue_policy
    WHERE channel = ANY (%(channels)s::text[]) AND max_size IS NOT NULL AND scope IN ('each', 'key'))

-- name: begun
-- The values that COPY stores in each row, which keys are governed, and whether this role may COPY.
SELECT CASE WHEN %(held_for)s::interval IS NOT NULL OR %(waits)s THEN 'held'
            WHEN run_at > now THEN 'scheduled'
            ELSE 'ready' END,
       run_at, now, least(%(expires_at)s::timestamptz, now + %(expires_after)s::interval),
       now + %(held_for)s::interval,
       CASE WHEN EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = %(channel)s AND p.governs)
            THEN ARRAY(SELECT DISTINCT key FROM unnest(%(keys)s::text[]) AS k (key)
                       WHERE pgqueue_is_governed_v1(%(channel)s, key)) END,
       pgqueue_stores_messages_v1()
FROM (SELECT statement_timestamp() AS now,
             coalesce(%(run_at)s::timestamptz,
                      statement_timestamp() + coalesce(%(run_after)s::interval, '0')) AS run_at) due

-- name: copy
COPY pgqueue_message
    (id, key, payload, governed, channel, task, metadata, options, priority, max_attempts,
     state, run_at, created_at, expires_at, lease_until, ordered, parent_id, flow_id)
FROM STDIN

-- name: copied
-- Bells, notices and notifications for all messages of one COPY. The statement does not read the stored
-- rows: a read would make a SERIALIZABLE producer conflict with workers.
WITH rung AS (
    INSERT INTO pgqueue_bell (channel, key)
    SELECT %(channel)s, key FROM unnest(%(keys)s::text[]) AS k (key)
    WHERE %(state)s::text = 'ready'
    RETURNING key
), noticed AS (
    SELECT pgqueue_notice_v1(%(channel)s, id, 'created')
    FROM unnest(%(ids)s::bigint[]) AS i (id)
    WHERE EXISTS (SELECT FROM pgqueue_channel WHERE name = %(channel)s AND watched)
)
SELECT CASE %(state)s::text WHEN 'ready' THEN pgqueue_tell_v1(%(channel)s)
                            WHEN 'scheduled' THEN pgqueue_tell_promoter_v1(%(run_at)s)
                            ELSE false END,
       (SELECT count(*) FROM rung), (SELECT count(*) FROM noticed)

-- name: drops
SELECT EXISTS (SELECT FROM pgqueue_channel WHERE name = %(channel)s AND on_full = 'drop')
