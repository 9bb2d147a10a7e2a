CREATE OR REPLACE FUNCTION pgqueue_enqueue_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, run_at timestamptz, run_after interval,
    expires_at timestamptz, expires_after interval, held_for interval, ordered boolean,
    dedupe_key text, dedupe_for interval, replaces boolean, parent_id bigint, reserved bigint,
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
    created_at := statement_timestamp();
    due_at := coalesce(run_at, created_at + coalesce(run_after, '0'));
    expires_at := least(expires_at, created_at + expires_after);
    lease_until := created_at + held_for;
    state := CASE WHEN held_for IS NOT NULL THEN 'held'
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
             run_at, created_at, expires_at, lease_until, ordered, governed, parent_id)
        VALUES (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                due_at, created_at, expires_at, lease_until, ordered, governed, parent_id);
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

CREATE OR REPLACE FUNCTION pgqueue_store_once_v1(
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
                 run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, dedupe_key, debounced)
            VALUES (given.id, given.channel, given.key, given.task, given.payload, given.body, given.metadata, given.options,
                    given.priority, given.max_attempts, given.state, given.run_at, given.created_at, given.expires_at,
                    given.lease_until, given.ordered, given.governed, given.parent_id, given.dedupe_key, true)
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
                 run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, dedupe_key)
            VALUES (given.id, given.channel, given.key, given.task, given.payload, given.body, given.metadata, given.options,
                    given.priority, given.max_attempts, given.state, given.run_at, given.created_at, given.expires_at,
                    given.lease_until, given.ordered, given.governed, given.parent_id, given.dedupe_key)
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

DROP FUNCTION pgqueue_enqueue_v2(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval, timestamptz, interval,
    interval, boolean, text, interval, boolean, bigint, bigint, bigint, boolean);
