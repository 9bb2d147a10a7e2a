-- Enqueueing, for Python and for plain SQL alike: triggers, psql and other languages call
-- pgqueue_enqueue(), in their own transaction.
--
-- Each function that everybody calls asks first whether its caller may write by itself. If not, it calls a function that
-- runs as the owner of the tables (0008_roles).

-- Return whether the caller may store messages by itself.
CREATE FUNCTION pgqueue_stores_messages_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT has_column_privilege('pgqueue_message'::regclass, 'id', 'INSERT')
$$;

-- Store a message, also one of a flow, which is held where it waits for others: to set that after the insert would need
-- UPDATE on messages, which a producer must not have. came_of is 'stored', 'existing' (id is that of the message with the
-- same dedupe_key), 'replaced', 'full' or 'dropped' (no id). Without sequential scans: a session keeps its plans, and one
-- made while the queue was empty would read all of the table later.
CREATE FUNCTION pgqueue_enqueue_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, run_at timestamptz, run_after interval,
    expires_at timestamptz, expires_after interval, held_for interval, ordered boolean,
    dedupe_key text, dedupe_for interval, replaces boolean, parent_id bigint, reserved bigint,
    flow_id bigint, waits boolean,
    OUT id bigint, OUT state text, OUT due_at timestamptz, OUT created_at timestamptz,
    OUT is_told boolean, OUT came_of text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    lease_until timestamptz;
    governed boolean;
    is_bounded boolean;
    is_duplicate boolean := false;
    is_full boolean := false;
    message pgqueue_message;
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        SELECT p.id, p.state, p.due_at, p.created_at, p.is_told, p.came_of
        INTO id, state, due_at, created_at, is_told, came_of
        FROM pgqueue_produce_v1(
            channel, key, task, payload, body, metadata, options, priority, max_attempts, run_at, run_after, expires_at,
            expires_after, held_for, ordered, dedupe_key, dedupe_for, replaces, reserved, flow_id, waits) AS p;
        RETURN;
    END IF;
    created_at := statement_timestamp();
    due_at := coalesce(run_at, created_at + coalesce(run_after, '0'));
    expires_at := least(expires_at, created_at + expires_after);
    lease_until := created_at + held_for;
    state := CASE WHEN held_for IS NOT NULL OR waits THEN 'held'
                  WHEN due_at > created_at THEN 'scheduled'
                  ELSE 'ready' END;
    came_of := 'stored';
    is_told := false;

    IF ordered THEN
        PERFORM pgqueue_keep_order_v1(channel, key);
    END IF;
    is_bounded := EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = channel AND p.max_size IS NOT NULL);
    LOOP
        IF dedupe_key IS NOT NULL THEN
            -- Most duplicates are found here. One that replaces another needs no room for itself.
            SELECT d.message_id INTO id FROM pgqueue_dedupe d
            WHERE d.channel = channel AND d.dedupe_key = dedupe_key AND d.expires_at > created_at;
            IF NOT FOUND THEN
                IF replaces AND is_bounded THEN
                    -- One that is being claimed gives up its key, but not its place: wait for that.
                    PERFORM FROM pgqueue_message m
                    WHERE m.channel = channel AND m.dedupe_key = dedupe_key AND m.state IN ('held', 'scheduled', 'ready')
                    FOR UPDATE;
                END IF;
                SELECT m.id INTO id FROM pgqueue_message m
                WHERE m.channel = channel AND m.dedupe_key = dedupe_key
                  AND m.state IN ('held', 'scheduled', 'ready', 'running');
                is_duplicate := FOUND;
            END IF;
            IF id IS NOT NULL AND NOT (is_duplicate AND (replaces OR dedupe_for IS NOT NULL)) THEN
                came_of := 'existing';
                RETURN;
            END IF;
        END IF;
        EXIT WHEN is_duplicate OR NOT is_bounded;
        IF is_full THEN
            id := NULL;
            came_of := CASE WHEN EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = channel AND c.on_full = 'drop')
                            THEN 'dropped' ELSE 'full' END;
            RETURN;
        END IF;
        is_full := coalesce(least(pgqueue_room_v1(channel, NULL), pgqueue_room_v1(channel, key)) < 1, false);
        EXIT WHEN NOT is_full;
        -- The producer that was waited for may have stored the same key: look again.
    END LOOP;

    id := coalesce(reserved, nextval('pgqueue_message_id_seq'));
    governed := ordered OR pgqueue_is_governed_v1(channel, key);
    IF dedupe_key IS NULL THEN
        INSERT INTO pgqueue_message
            (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
             run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id)
        VALUES (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                due_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id);
    ELSE
        message.id := id;
        message.channel := channel;
        message.key := key;
        message.task := task;
        message.payload := payload;
        message.body := body;
        message.metadata := metadata;
        message.options := options;
        message.priority := priority;
        message.max_attempts := max_attempts;
        message.state := state;
        message.run_at := due_at;
        message.created_at := created_at;
        message.expires_at := expires_at;
        message.lease_until := lease_until;
        message.ordered := ordered;
        message.governed := governed;
        message.parent_id := parent_id;
        message.flow_id := flow_id;
        message.dedupe_key := dedupe_key;
        SELECT u.id, u.came_of INTO id, came_of
        FROM pgqueue_store_once_v1(message, dedupe_for, replaces) AS u;
        IF came_of = 'existing' THEN
            RETURN;
        END IF;
        IF came_of = 'replaced' THEN
            -- It stays in its own lane, ordered or not.
            SELECT m.key, m.governed INTO key, governed FROM pgqueue_message m WHERE m.id = id;
        END IF;
    END IF;

    -- One that replaces another was announced when that one was stored.
    IF came_of = 'stored' THEN
        PERFORM pgqueue_notice_v1(channel, id, 'created');
    END IF;
    IF state = 'ready' THEN
        IF governed THEN
            INSERT INTO pgqueue_bell (channel, key) VALUES (channel, key);
        END IF;
        is_told := pgqueue_tell_v1(channel);
    ELSIF state = 'scheduled' THEN
        is_told := pgqueue_tell_promoter_v1(due_at);
    END IF;
END $$;

-- Store a message unless its dedupe_key is taken: by a live message, or by one that is remembered. It
-- waits for a transaction that has stored the same key and is not committed. `DO UPDATE` locks the row
-- that it finds: only where claims take the key away, so that it never finds a message that runs.
-- A message of a flow is never replaced: others take what it returns, and it may wait for others.
CREATE FUNCTION pgqueue_store_once_v1(
    given pgqueue_message, dedupe_for interval, replaces boolean, OUT id bigint, OUT came_of text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    is_new boolean;
BEGIN
    IF dedupe_for IS NOT NULL THEN
        INSERT INTO pgqueue_dedupe AS d (channel, dedupe_key, message_id, expires_at)
        VALUES (given.channel, given.dedupe_key, given.id, given.created_at + dedupe_for)
        ON CONFLICT (channel, dedupe_key) DO UPDATE
        SET message_id = excluded.message_id, expires_at = excluded.expires_at
        WHERE d.expires_at <= clock_timestamp();
        IF NOT FOUND THEN
            came_of := 'existing';
            SELECT d.message_id INTO id FROM pgqueue_dedupe d
            WHERE d.channel = given.channel AND d.dedupe_key = given.dedupe_key;
            RETURN;
        END IF;
    END IF;
    LOOP
        IF replaces AND NOT EXISTS (
            SELECT FROM pgqueue_message m
            WHERE m.channel = given.channel AND m.dedupe_key = given.dedupe_key AND m.state = 'running')
        THEN
            INSERT INTO pgqueue_message AS m
                (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                 run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id, dedupe_key, debounced)
            VALUES (given.id, given.channel, given.key, given.task, given.payload, given.body, given.metadata, given.options,
                    given.priority, given.max_attempts, given.state, given.run_at, given.created_at, given.expires_at,
                    given.lease_until, given.ordered, given.governed, given.parent_id, given.flow_id, given.dedupe_key, true)
            ON CONFLICT (channel, dedupe_key)
                WHERE dedupe_key IS NOT NULL AND state IN ('held', 'scheduled', 'ready', 'running')
            DO UPDATE SET
                task = excluded.task, payload = excluded.payload, body = excluded.body,
                metadata = excluded.metadata, options = excluded.options, priority = excluded.priority,
                max_attempts = excluded.max_attempts, run_at = excluded.run_at, expires_at = excluded.expires_at,
                state = excluded.state, lease_until = excluded.lease_until, debounced = true,
                governed = m.ordered OR pgqueue_is_governed_v1(m.channel, m.key)
            WHERE m.state IN ('held', 'scheduled', 'ready') AND m.flow_id IS NULL
            RETURNING m.id, m.id = given.id INTO id, is_new;
            IF FOUND THEN
                came_of := CASE WHEN is_new THEN 'stored' ELSE 'replaced' END;
                RETURN;
            END IF;
        ELSE
            INSERT INTO pgqueue_message
                (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                 run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id, dedupe_key)
            VALUES (given.id, given.channel, given.key, given.task, given.payload, given.body, given.metadata, given.options,
                    given.priority, given.max_attempts, given.state, given.run_at, given.created_at, given.expires_at,
                    given.lease_until, given.ordered, given.governed, given.parent_id, given.flow_id, given.dedupe_key)
            ON CONFLICT (channel, dedupe_key)
                WHERE dedupe_key IS NOT NULL AND state IN ('held', 'scheduled', 'ready', 'running')
            DO NOTHING;
            IF FOUND THEN
                id := given.id;
                came_of := 'stored';
                RETURN;
            END IF;
        END IF;
        SELECT m.id INTO id FROM pgqueue_message m
        WHERE m.channel = given.channel AND m.dedupe_key = given.dedupe_key
          AND m.state IN ('held', 'scheduled', 'ready', 'running');
        IF FOUND THEN
            came_of := 'existing';
            UPDATE pgqueue_dedupe d SET message_id = pgqueue_store_once_v1.id
            WHERE dedupe_for IS NOT NULL AND d.channel = given.channel AND d.dedupe_key = given.dedupe_key;
            RETURN;
        END IF;
        -- That message has ended since: its key is free again.
    END LOOP;
END $$;

-- Enqueue from triggers, psql and other languages. It returns the id of the new message, or of the one that has the same
-- dedupe_key. What can't be stored is refused by the name of its argument, and `infinity` means that a message never expires.
CREATE FUNCTION pgqueue_enqueue(
    task text,
    payload jsonb DEFAULT '{"args": [], "kwargs": {}}',
    channel text DEFAULT 'default',
    key text DEFAULT '',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    run_after interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    expires_after interval DEFAULT NULL,
    max_attempts integer DEFAULT 20,
    ordered boolean DEFAULT false,
    dedupe_key text DEFAULT NULL,
    dedupe_for interval DEFAULT NULL,
    replaces boolean DEFAULT false,
    held_for interval DEFAULT NULL,
    metadata jsonb DEFAULT '{}',
    body bytea DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stored record;
BEGIN
    IF channel = '' THEN
        RAISE EXCEPTION 'channel must be a name.' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority must be from -100 to 100, and is %.', priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF max_attempts < 1 THEN
        RAISE EXCEPTION 'max_attempts must be 1 or more, and is %.', max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(metadata) <> 'object' THEN
        RAISE EXCEPTION 'metadata must be a JSON object, and is of the type %.', jsonb_typeof(metadata)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    stored := pgqueue_enqueue_v1(
        pgqueue_as_name_v1('channel', channel, 200), pgqueue_as_name_v1('key', key, 1000),
        pgqueue_as_name_v1('task', task, 1000), payload, body, metadata, NULL, priority::smallint, max_attempts,
        pgqueue_as_instant_v1('run_at', run_at), pgqueue_as_duration_v1('run_after', run_after),
        pgqueue_as_instant_v1('expires_at', nullif(expires_at, 'infinity')),
        pgqueue_as_duration_v1('expires_after', expires_after), pgqueue_as_duration_v1('held_for', held_for),
        ordered, pgqueue_as_name_v1('dedupe_key', dedupe_key, 1000),
        pgqueue_as_duration_v1('dedupe_for', dedupe_for), replaces, NULL, NULL, NULL, false);
    IF stored.came_of = 'full' THEN
        RAISE EXCEPTION 'The channel % is full for key %.', quote_literal(channel), quote_literal(key)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'A policy bounds its max_size.';
    END IF;
    RETURN stored.id;
END $$;

-- Store a message that is due at once, has no dedupe_key and is not ordered. Most are so, in channels that
-- have no policies and are not watched: where that holds, one statement finds it out, and an enqueue takes
-- half as long as by pgqueue_enqueue_v1 (32 clients on two cores). It returns what that returns, as text,
-- which costs less than columns: "id created_at is_told came_of"; the time in microseconds since 1970, and
-- "-" for no id.
CREATE FUNCTION pgqueue_enqueue_now_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, expires_at timestamptz, expires_after interval, parent_id bigint)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    is_special boolean;
    is_told boolean;
    said text;
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN pgqueue_produce_now_v1(
            channel, key, task, payload, body, metadata, options, priority, max_attempts, expires_at, expires_after);
    END IF;
    SELECT EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = channel)
               OR EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = channel AND c.watched),
           -- As pgqueue_tell_v1 asks.
           EXISTS (SELECT FROM pgqueue_worker w
                   WHERE (channel = ANY (w.channels) OR w.channels IS NULL AND channel <> ALL (w.excluded))
                     AND w.notify_until > clock_timestamp())
    INTO is_special, is_told;
    IF is_special THEN
        SELECT coalesce(e.id::text, '-') || ' ' || (date_part('epoch', e.created_at) * 1000000)::bigint
               || ' ' || e.is_told || ' ' || e.came_of
        INTO said
        FROM pgqueue_enqueue_v1(
            channel, key, task, payload, body, metadata, options, priority, max_attempts, NULL, NULL,
            expires_at, expires_after, NULL, false, NULL, NULL, false, parent_id, NULL, NULL, false) AS e;
        RETURN said;
    END IF;
    INSERT INTO pgqueue_message
        (channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
         run_at, created_at, expires_at, ordered, governed, parent_id)
    VALUES (channel, key, task, payload, body, metadata, options, priority, max_attempts, 'ready',
            statement_timestamp(), statement_timestamp(),
            least(expires_at, statement_timestamp() + expires_after), false, false, parent_id)
    RETURNING id || ' ' || (date_part('epoch', created_at) * 1000000)::bigint || ' ' || is_told || ' stored'
    INTO said;
    IF is_told THEN
        PERFORM pg_notify(pgqueue_notifications_v1(), channel);
    END IF;
    RETURN said;
END $$;

-- Take ids for messages that are stored later, in the same transaction.
CREATE FUNCTION pgqueue_reserve_v1(count integer) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN pgqueue_produce_ids_v1('message', $1);
    END IF;
    RETURN ARRAY(SELECT nextval('pgqueue_message_id_seq') FROM generate_series(1, $1));
END $$;

-- Remember ids of messages from outside, and return the new ones. In one order, so that two transactions with several
-- ids do not deadlock. It waits for a transaction that has stored one of them and is not committed.
CREATE FUNCTION pgqueue_remember_v1(ids text[], lasting interval) RETURNS SETOF text LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT has_table_privilege('pgqueue_dedupe'::regclass, 'INSERT') THEN
        RETURN QUERY SELECT pgqueue_produce_remembered_v1($1, $2);
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO pgqueue_dedupe AS d (channel, dedupe_key, message_id, expires_at)
    SELECT '', id, 0, statement_timestamp() + $2
    FROM (SELECT DISTINCT id COLLATE "C" AS id FROM unnest($1) AS given (id)) each
    ORDER BY id
    ON CONFLICT (channel, dedupe_key) DO UPDATE
    SET expires_at = excluded.expires_at
    WHERE d.expires_at <= clock_timestamp()
    RETURNING dedupe_key;
END $$;
