-- As before, but the wait has an end.
CREATE OR REPLACE FUNCTION pgqueue_keep_order_v1(channel text, key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lock bigint := hashtextextended('order' || chr(31) || $1 || chr(31) || $2, 'pgqueue_message'::regclass::oid::bigint);
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock) THEN
        PERFORM pgqueue_wait_v1(lock, format('The lane %L of the channel %L', $2, $1));
    END IF;
END $$;

-- As before, but the wait has an end.
CREATE OR REPLACE FUNCTION pgqueue_room_v1(channel text, key text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    most integer;
    live bigint;
    lock bigint := hashtextextended(
        'size' || chr(31) || $1 || coalesce(chr(31) || $2, ''), 'pgqueue_message'::regclass::oid::bigint);
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

DROP FUNCTION pgqueue_bucket_v1(text, text);
