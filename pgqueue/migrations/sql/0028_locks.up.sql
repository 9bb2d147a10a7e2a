-- One of 1 024 numbers for each lane (key NULL: for each channel). A transaction may enqueue ordered messages with any number
-- of keys, and all locks of the cluster's sessions have room for some thousands only. With a lock for each lane, one
-- transaction could make all others fail, in other databases, too. Lanes with the same number wait for each other. Where
-- several are locked, it is in the order of these numbers.
CREATE FUNCTION pgqueue_bucket_v1(channel text, key text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtextextended($1 || coalesce(chr(31) || $2, ''), 0) & 1023)::integer
$$;

-- As before, but lanes share locks.
CREATE OR REPLACE FUNCTION pgqueue_keep_order_v1(channel text, key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lock bigint := hashtextextended(
        'order' || chr(31) || pgqueue_bucket_v1($1, $2), 'pgqueue_message'::regclass::oid::bigint);
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock) THEN
        PERFORM pgqueue_wait_v1(lock, format('The lane %L of the channel %L', $2, $1));
    END IF;
END $$;

-- As before, but lanes share locks, and so do channels.
CREATE OR REPLACE FUNCTION pgqueue_room_v1(channel text, key text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    most integer;
    live bigint;
    lock bigint := hashtextextended(
        CASE WHEN $2 IS NULL THEN 'size of a channel' ELSE 'size of a key' END || chr(31) || pgqueue_bucket_v1($1, $2),
        'pgqueue_message'::regclass::oid::bigint);
BEGIN
    SELECT p.max_size INTO most
    FROM (
        SELECT c.* FROM pgqueue_policy c
        WHERE c.channel = $1 AND c.scope = 'channel' AND c.key = '' AND $2 IS NULL
        UNION ALL
        SELECT e.* FROM pgqueue_policy e
        WHERE e.channel = $1 AND e.scope = 'each' AND e.key = '' AND $2 <> ''
        UNION ALL
        SELECT k.* FROM pgqueue_policy k
        WHERE k.channel = $1 AND k.scope = 'key' AND k.key = $2) p
    ORDER BY p.scope = 'key' DESC
    LIMIT 1;
    IF most IS NULL THEN
        RETURN NULL;
    END IF;
    IF NOT pg_try_advisory_xact_lock(lock) THEN
        PERFORM pgqueue_wait_v1(lock, format('The room of the channel %L', $1) || coalesce(', key ' || quote_literal($2) || ',', ''));
    END IF;
    IF $2 IS NULL THEN
        SELECT (SELECT count(*) FROM pgqueue_message m WHERE m.channel = $1 AND m.state = 'ready' AND NOT m.governed)
             + (SELECT count(*) FROM pgqueue_message m WHERE m.channel = $1 AND m.state = 'ready' AND m.governed AND NOT m.ordered)
             + (SELECT count(*) FROM pgqueue_message m
                WHERE m.channel = $1 AND m.state IN ('held', 'scheduled', 'ready', 'running') AND m.ordered
                  AND m.state = 'ready' AND m.governed)
             + (SELECT count(*) FROM pgqueue_message m WHERE m.channel = $1 AND m.state = 'running')
             + (SELECT count(*) FROM pgqueue_message m WHERE m.channel = $1 AND m.state IN ('held', 'scheduled'))
        INTO live;
    ELSE
        SELECT (SELECT count(*) FROM pgqueue_message m
                WHERE m.channel = $1 AND m.key = $2 AND m.state = 'ready' AND NOT m.governed)
             + (SELECT count(*) FROM pgqueue_message m
                WHERE m.channel = $1 AND m.key = $2 AND m.state = 'ready' AND m.governed AND NOT m.ordered)
             + (SELECT count(*) FROM pgqueue_message m
                WHERE m.channel = $1 AND m.key = $2 AND m.state IN ('held', 'scheduled', 'ready', 'running') AND m.ordered
                  AND m.state = 'ready' AND m.governed)
             + (SELECT count(*) FROM pgqueue_message m WHERE m.channel = $1 AND m.key = $2 AND m.state = 'running')
             + (SELECT count(*) FROM pgqueue_message m
                WHERE m.channel = $1 AND m.key = $2 AND m.state IN ('held', 'scheduled'))
        INTO live;
    END IF;
    RETURN greatest(most - live, 0);
END $$;

-- All rows have NULL: the columns are new.
ALTER TABLE pgqueue_duty VALIDATE CONSTRAINT pgqueue_duty_upto;
ALTER TABLE pgqueue_message VALIDATE CONSTRAINT pgqueue_message_lengths;
