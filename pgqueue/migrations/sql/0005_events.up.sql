-- The log. A position is given once, in the order of commits, without gaps. Partitions are a million
-- positions each, made in advance by the duty `sequence`.
CREATE TABLE pgqueue_event (
    position bigint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    payload jsonb,
    metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pgqueue_event_pkey PRIMARY KEY (position)
) PARTITION BY RANGE (position);

CREATE INDEX pgqueue_event_created_at ON pgqueue_event USING brin (created_at);

CREATE TABLE pgqueue_event_0 PARTITION OF pgqueue_event FOR VALUES FROM (0) TO (1000000);
CREATE TABLE pgqueue_event_1 PARTITION OF pgqueue_event FOR VALUES FROM (1000000) TO (2000000);

-- Events are in the inbox for milliseconds; the sequencer reads it from its front.
ALTER TABLE pgqueue_event_inbox SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_insert_threshold = -1,
    toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE pgqueue_reader SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_cursor SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

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

-- Store an event in the caller's transaction. One statement tells whether a reader waits, so that this costs
-- no more than an enqueue.
CREATE FUNCTION pgqueue_publish_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
    is_told boolean;
BEGIN
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
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF topic IS NULL OR topic !~ '^[^.*\s]+(\.[^.*\s]+)*$' OR octet_length(topic) > 200 THEN
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
END $$;

-- The partition of a group that an event belongs to: never negative, whatever the hash is.
CREATE FUNCTION pgqueue_partition_v1(key text, partitions integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtextextended(key, 0) & 9223372036854775807) % partitions
$$;
