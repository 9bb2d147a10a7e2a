CREATE OR REPLACE FUNCTION pgqueue_keep_order_v1(channel text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(
        hashtextextended('order' || chr(31) || $1 || chr(31) || $2, 'pgqueue_message'::regclass::oid::bigint));
END $$;

CREATE OR REPLACE FUNCTION pgqueue_room_v1(channel text, key text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    most integer;
    live bigint;
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
    PERFORM pg_advisory_xact_lock(
        hashtextextended('size' || chr(31) || $1 || coalesce(chr(31) || $2, ''), 'pgqueue_message'::regclass::oid::bigint));
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

CREATE OR REPLACE FUNCTION pgqueue_enqueue_v2(
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

CREATE OR REPLACE FUNCTION pgqueue_enqueue_now_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, expires_at timestamptz, expires_after interval, parent_id bigint)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    is_special boolean;
    is_told boolean;
    said text;
BEGIN
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
            expires_at, expires_after, NULL, false, NULL, NULL, false, parent_id, NULL) AS e;
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

CREATE OR REPLACE FUNCTION pgqueue_publish_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
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

CREATE OR REPLACE FUNCTION pgqueue_acting_v1() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN said IS NULL OR said = '' THEN '{}'
                WHEN said LIKE '{%' THEN said::jsonb
                ELSE jsonb_build_object('user', said) END
    FROM (SELECT current_setting('pgqueue.acting', true) OFFSET 0) AS setting (said)
$$;

DROP FUNCTION pgqueue_operate_end_v1(bigint[], text);
DROP FUNCTION pgqueue_end_v1(bigint[], text);
DROP FUNCTION pgqueue_produce_remembered_v1(text[], interval);
DROP FUNCTION pgqueue_produce_waits_v1(bigint, bigint[], text[], bigint[], bigint[]);
DROP FUNCTION pgqueue_produce_flow_v1(bigint, text, bigint);
DROP FUNCTION pgqueue_produce_event_v1(text, text, jsonb, jsonb);
DROP FUNCTION pgqueue_produce_now_v1(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval);
DROP FUNCTION pgqueue_produce_v1(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval, timestamptz, interval,
    interval, boolean, text, interval, boolean, bigint, bigint, boolean);
DROP FUNCTION pgqueue_check_reserved_v1(text, bigint[]);
DROP FUNCTION pgqueue_produce_ids_v1(text, integer);
DROP FUNCTION pgqueue_produced_v1(text, jsonb);
DROP FUNCTION pgqueue_said_v1(jsonb);
DROP FUNCTION pgqueue_remember_v1(text[], interval);
DROP FUNCTION pgqueue_block_v1(bigint, bigint[], bigint[], text[]);
DROP FUNCTION pgqueue_begin_flow_v1(bigint, text, bigint);
DROP FUNCTION pgqueue_reserve_flow_v1();
DROP FUNCTION pgqueue_reserve_v1(integer);
DROP FUNCTION pgqueue_stores_events_v1();
DROP FUNCTION pgqueue_stores_messages_v1();
DROP TABLE pgqueue_reserved;
DROP TABLE pgqueue_lock;
DROP FUNCTION pgqueue_wait_v1(bigint, text);
