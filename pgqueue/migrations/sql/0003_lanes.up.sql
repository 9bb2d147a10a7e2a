-- Every claim and every settle of a governed message changes a lane: room in each page keeps
-- it there. Bells live for milliseconds; every settle reads who waits for a result.
ALTER TABLE pgqueue_lane SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE pgqueue_bell SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE pgqueue_waiter SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_gate SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

-- Whether claims must look at a lane before they take of it. A weight is for turns among all
-- keys, so it governs all of them. A message without a key belongs to no key.
CREATE FUNCTION pgqueue_is_governed_v1(channel text, key text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- By index each, since keys by the thousand may have policies.
    RETURN EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'channel' AND p.key = '' AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'each' AND p.key = '' AND p.governs AND $2 <> '')
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'key' AND p.key = $2 AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = $1 AND p.weight IS NOT NULL);
END $$;

-- A policy rings its whole channel, whoever writes it: Django's save() and update(), psql.
-- What is listed here would miss the messages that are not committed yet.
CREATE FUNCTION pgqueue_policy_changed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    -- Code that states its policies whenever it starts changes nothing.
    IF OLD IS NOT DISTINCT FROM NEW THEN
        RETURN NULL;
    END IF;
    FOR changed IN SELECT DISTINCT unnest(array_remove(ARRAY[OLD.channel, NEW.channel], NULL)) ORDER BY 1 LOOP
        INSERT INTO pgqueue_bell (channel) VALUES (changed);
        PERFORM pgqueue_tell_v1(changed);
    END LOOP;
    IF NEW.scope = 'channel' THEN
        INSERT INTO pgqueue_gate (channel, tat) VALUES (NEW.channel, 'epoch') ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER pgqueue_policy_changed AFTER INSERT OR UPDATE OR DELETE ON pgqueue_policy
FOR EACH ROW EXECUTE FUNCTION pgqueue_policy_changed_v1();

-- So does a channel: it may have been paused, or do otherwise about dead letters.
CREATE FUNCTION pgqueue_channel_changed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgqueue_bell (channel) VALUES (coalesce(NEW.name, OLD.name));
    PERFORM pgqueue_tell_v1(coalesce(NEW.name, OLD.name));
    RETURN NULL;
END $$;

CREATE TRIGGER pgqueue_channel_changed AFTER INSERT OR UPDATE OR DELETE ON pgqueue_channel
FOR EACH ROW EXECUTE FUNCTION pgqueue_channel_changed_v1();

-- Tell who watches a channel; most channels, nobody does. The events are 'created', 'started',
-- 'deferred' (to run again; the outcome is 'failed' or 'lost' where that is why), 'ended' (the
-- outcome is how) and 'replayed'.
CREATE FUNCTION pgqueue_notice_v1(channel text, id bigint, event text, outcome text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = $1 AND c.watched) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1() || '_notices',
                      json_build_object('channel', $1, 'id', $2, 'event', $3, 'outcome', $4)::text);
    RETURN true;
END $$;

-- Tell who waits for a message to end.
CREATE FUNCTION pgqueue_tell_waiters_v1(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(pgqueue_notifications_v1() || '_results', $1::text);
    RETURN true;
END $$;
