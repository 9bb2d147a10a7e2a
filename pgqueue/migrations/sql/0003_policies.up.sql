-- Return whether a lane is governed: whether claims must look at it before they take its messages. A
-- weight sets turns among all keys, so it governs all of them. A message without a key has no policy of a
-- key.
CREATE FUNCTION pgqueue_is_governed_v1(channel text, key text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Each by an index, since thousands of keys may have policies.
    RETURN EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'channel' AND p.key = '' AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'each' AND p.key = '' AND p.governs AND $2 <> '')
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'key' AND p.key = $2 AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = $1 AND p.weight IS NOT NULL);
END $$;

-- Each change of a policy inserts a bell for its whole channel: by Django's save() and update(), or psql.
-- A list of lanes, made here, would miss messages that are not committed yet.
CREATE FUNCTION pgqueue_policy_changed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    -- Code that saves its policies at each start changes nothing.
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

-- So does each change of a channel: it may be paused, or treat dead letters differently.
CREATE FUNCTION pgqueue_channel_changed_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgqueue_bell (channel) VALUES (coalesce(NEW.name, OLD.name));
    PERFORM pgqueue_tell_v1(coalesce(NEW.name, OLD.name));
    RETURN NULL;
END $$;

CREATE TRIGGER pgqueue_channel_changed AFTER INSERT OR UPDATE OR DELETE ON pgqueue_channel
FOR EACH ROW EXECUTE FUNCTION pgqueue_channel_changed_v1();
