-- Notify those who wait for events; return whether there were any. NOTIFY takes a lock of the whole cluster at
-- commit, so it is sent only to the idle, as for messages.
CREATE FUNCTION pgqueue_tell_readers_v1() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_reader WHERE notify_until > clock_timestamp()) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1() || '_events', '');
    RETURN true;
END $$;

-- Return whether the caller may store events by itself.
CREATE FUNCTION pgqueue_stores_events_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT has_column_privilege('pgqueue_event_inbox'::regclass, 'metadata', 'INSERT')
$$;

-- Store an event in the caller's transaction. One statement tells whether a reader waits, so that this costs
-- no more than an enqueue.
CREATE FUNCTION pgqueue_publish_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
    is_told boolean;
BEGIN
    IF NOT pgqueue_stores_events_v1() THEN
        RETURN pgqueue_produce_event_v1($1, $2, $3, $4);
    END IF;
    INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata)
    VALUES ($1, $2, $3, $4)
    RETURNING id, EXISTS (SELECT FROM pgqueue_reader WHERE notify_until > clock_timestamp())
    INTO stored, is_told;
    IF is_told THEN
        PERFORM pg_notify(pgqueue_notifications_v1() || '_events', '');
    END IF;
    RETURN stored;
END $$;

-- Publish from triggers, psql and other languages, in their own transaction.
CREATE FUNCTION pgqueue_publish(
    topic text, payload jsonb DEFAULT NULL, key text DEFAULT '', metadata jsonb DEFAULT '{}')
RETURNS void LANGUAGE plpgsql AS $publish$
BEGIN
    -- White space is as Python has it, whatever the collation says. The pattern is in dollar quotes: a session whose
    -- standard_conforming_strings is off loses the backslashes of other strings.
    IF topic IS NULL OR octet_length(topic) > 200 OR topic !~
       $re$^[^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+([.][^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*$$re$
    THEN
        RAISE EXCEPTION '% is no topic.', quote_nullable(topic)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A topic is words with dots between them, 200 bytes at most: order.paid.';
    END IF;
    IF key IS NULL OR octet_length(key) > 1000 THEN
        RAISE EXCEPTION '% is no key.', quote_nullable(key)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A key is text of 1000 bytes at most.';
    END IF;
    IF jsonb_typeof(metadata) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'The metadata of an event is a JSON object.' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pgqueue_publish_v1(topic, key, payload, metadata);
END $publish$;

-- The partition of a group that an event belongs to: never negative, whatever the hash is.
CREATE FUNCTION pgqueue_partition_v1(key text, partitions integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtextextended(key, 0) & 9223372036854775807) % partitions
$$;
