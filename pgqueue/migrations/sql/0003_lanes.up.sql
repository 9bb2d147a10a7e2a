-- Lanes: which ones are governed, and the locks of ordered lanes and of channels and keys with a max_size.

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

-- One of 1 024 numbers for each lane (key NULL: for each channel). A transaction may enqueue ordered messages with any number
-- of keys, and all locks of the cluster's sessions have room for some thousands only. With a lock for each lane, one
-- transaction could make all others fail, in other databases, too. Lanes with the same number wait for each other. Where
-- several are locked, it is in the order of these numbers.
CREATE FUNCTION pgqueue_bucket_v1(channel text, key text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtextextended($1 || coalesce(chr(31) || $2, ''), 0) & 1023)::integer
$$;

-- Wait for an advisory lock that another session has: as a rule a producer, until it commits. Anybody who may log in can
-- take such a lock, and keep it: so the wait has an end, after the lock_timeout of the session, or else the one that
-- pgqueue.lock_timeout says, or five minutes. The usual case, that nobody has it, never comes here.
CREATE FUNCTION pgqueue_wait_v1(lock bigint, what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before constant text := current_setting('lock_timeout');
    holders text;
BEGIN
    IF before = '0' THEN
        PERFORM set_config('lock_timeout', coalesce(nullif(current_setting('pgqueue.lock_timeout', true), ''), '5min'), true);
    END IF;
    PERFORM pg_advisory_xact_lock($1);
    PERFORM set_config('lock_timeout', before, true);
EXCEPTION WHEN lock_not_available THEN
    SELECT string_agg(DISTINCT coalesce('pid ' || l.pid, 'a prepared transaction') || coalesce(' of the role ' || a.usename, ''), ', ')
    INTO holders
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.classid::bigint = (($1 >> 32) & 4294967295) AND l.objid::bigint = ($1 & 4294967295);
    RAISE EXCEPTION '% is locked: %.', $2, coalesce(holders, 'another session had it')
        USING ERRCODE = 'lock_not_available',
              HINT = 'A transaction that is open has enqueued there, or a session keeps the lock. pgqueue_health --check locks names it.';
END $$;

-- Ordered messages of a lane run in the order their transactions commit: before a producer takes an id,
-- it waits here until the producer before it has committed.
CREATE FUNCTION pgqueue_keep_order_v1(channel text, key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lock bigint := hashtextextended(
        'order' || chr(31) || pgqueue_bucket_v1($1, $2), 'pgqueue_message'::regclass::oid::bigint);
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock) THEN
        PERFORM pgqueue_wait_v1(lock, format('The lane %L of the channel %L', $2, $1));
    END IF;
END $$;

-- Return how many more messages a channel (key NULL) or a key may have; NULL: any number. The lock lasts
-- until the producer commits, or two producers would both find room for one message. The count is a
-- later statement than the lock: an earlier one would not see what the holder before has stored.
CREATE FUNCTION pgqueue_room_v1(channel text, key text) RETURNS integer
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
