-- What a producer may do, in functions that run as the owner of the tables. A role that may only call these chooses
-- no id, no state and no counter, calls none of pgqueue's own tasks, and forges no end of another message.
--
-- The functions that everybody calls keep their names. Each asks first whether its caller may write by itself: the
-- owner of a queue with one role never pays for more than this question.

CREATE FUNCTION pgqueue_stores_messages_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT has_column_privilege('pgqueue_message'::regclass, 'id', 'INSERT')
$$;

CREATE FUNCTION pgqueue_stores_events_v1() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT has_column_privilege('pgqueue_event_inbox'::regclass, 'metadata', 'INSERT')
$$;

-- Ids that a producer has taken for messages and flows, which it stores later in the same transaction. Another
-- transaction can't use them, and a producer can't use ids that it has not taken. A crash of the server empties the
-- table, and ends these transactions.
CREATE UNLOGGED TABLE pgqueue_reserved (
    txid xid8 NOT NULL,
    kind text NOT NULL,
    ids int8multirange NOT NULL
);

-- As before, after the question.
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

-- As before, after the question.
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

-- As before, after the question.
CREATE OR REPLACE FUNCTION pgqueue_publish_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
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

-- Take ids for messages that are stored later, in the same transaction.
CREATE FUNCTION pgqueue_reserve_v1(count integer) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN pgqueue_produce_ids_v1('message', $1);
    END IF;
    RETURN ARRAY(SELECT nextval('pgqueue_message_id_seq') FROM generate_series(1, $1));
END $$;

-- Take the id of a flow that is stored later, in the same transaction.
CREATE FUNCTION pgqueue_reserve_flow_v1() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN (pgqueue_produce_ids_v1('flow', 1))[1];
    END IF;
    RETURN nextval('pgqueue_flow_id_seq');
END $$;

CREATE FUNCTION pgqueue_begin_flow_v1(id bigint, name text, handler_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        PERFORM pgqueue_produce_flow_v1($1, $2, $3);
        RETURN;
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id) VALUES ($1, $2, $3);
END $$;

-- Have messages of a flow wait. It returns false to a producer, who calls pgqueue_produce_waits_v1 then; all others
-- COPY the dependencies.
CREATE FUNCTION pgqueue_block_v1(flow_id bigint, children bigint[], watched bigint[], on_failures text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN false;
    END IF;
    INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
    SELECT c.child, $1, c.watched, c.on_failure FROM unnest($2, $3, $4) AS c (child, watched, on_failure);
    RETURN true;
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

-- Add to `acting` the role that the session has logged in as: a producer may say who acts, but not as if it were known.
CREATE FUNCTION pgqueue_said_v1(metadata jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT coalesce($1 ? 'acting', false) THEN $1
                ELSE jsonb_set($1, '{acting}',
                    CASE jsonb_typeof($1 -> 'acting')
                        WHEN 'object' THEN $1 -> 'acting'
                        WHEN 'null' THEN '{}'::jsonb
                        ELSE jsonb_build_object('user', $1 -> 'acting') END
                    || jsonb_build_object('session_user', session_user::text)) END
$$;

-- Return the metadata that a producer's message has.
CREATE FUNCTION pgqueue_produced_v1(task text, metadata jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF $1 NOT LIKE 'pgqueue.%' THEN
        RETURN pgqueue_said_v1($2);
    END IF;
    IF $1 NOT IN ('pgqueue.events.later.publish_now', 'pgqueue.compat.celery.linking.call_errback') THEN
        RAISE EXCEPTION 'The role % may not enqueue %: it is a task of pgqueue itself.', quote_ident(session_user), quote_literal($1)
            USING ERRCODE = 'insufficient_privilege', HINT = 'The functions of pgqueue store it, in the role of an operator or a worker.';
    END IF;
    RETURN pgqueue_said_v1($2) || jsonb_build_object('session_user', session_user::text);
END $$;

CREATE FUNCTION pgqueue_produce_ids_v1(kind text, count integer) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    taken bigint[];
BEGIN
    taken := ARRAY(SELECT nextval(CASE $1 WHEN 'flow' THEN 'pgqueue_flow_id_seq' ELSE 'pgqueue_message_id_seq' END)
                   FROM generate_series(1, $2));
    -- What ended transactions have left.
    DELETE FROM pgqueue_reserved
    WHERE ctid = ANY (ARRAY(SELECT r.ctid FROM pgqueue_reserved r
                            WHERE r.txid < pg_snapshot_xmin(pg_current_snapshot())
                            LIMIT 100 FOR UPDATE SKIP LOCKED));
    INSERT INTO pgqueue_reserved (txid, kind, ids)
    SELECT pg_current_xact_id(), $1, range_agg(int8range(t.id, t.id, '[]')) FROM unnest(taken) AS t (id);
    RETURN taken;
END $$;

CREATE FUNCTION pgqueue_check_reserved_v1(kind text, ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM (SELECT range_agg(own) AS ids
                     FROM pgqueue_reserved r CROSS JOIN LATERAL unnest(r.ids) AS own
                     WHERE r.txid = pg_current_xact_id_if_assigned() AND r.kind = $1) r
        WHERE r.ids @> (SELECT range_agg(int8range(i.id, i.id, '[]')) FROM unnest($2) AS i (id)))
    THEN
        RAISE EXCEPTION 'The role % may only use ids that its transaction has reserved.', quote_ident(session_user)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

CREATE FUNCTION pgqueue_produce_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, run_at timestamptz, run_after interval,
    expires_at timestamptz, expires_after interval, held_for interval, ordered boolean,
    dedupe_key text, dedupe_for interval, replaces boolean, reserved bigint, flow_id bigint, waits boolean,
    OUT id bigint, OUT state text, OUT due_at timestamptz, OUT created_at timestamptz,
    OUT is_told boolean, OUT came_of text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
BEGIN
    IF replaces THEN
        RAISE EXCEPTION 'The role % may not replace a message.', quote_ident(session_user)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF reserved IS NOT NULL THEN
        PERFORM pgqueue_check_reserved_v1('message', ARRAY[reserved]);
    END IF;
    IF flow_id IS NOT NULL THEN
        PERFORM pgqueue_check_reserved_v1('flow', ARRAY[flow_id]);
    END IF;
    SELECT e.id, e.state, e.due_at, e.created_at, e.is_told, e.came_of
    INTO id, state, due_at, created_at, is_told, came_of
    FROM pgqueue_enqueue_v2(
        channel, key, task, payload, body, pgqueue_produced_v1(task, metadata), options, priority, max_attempts, run_at,
        run_after, expires_at, expires_after, held_for, ordered, dedupe_key, dedupe_for, false, NULL, reserved, flow_id,
        waits) AS e;
END $$;

CREATE FUNCTION pgqueue_produce_now_v1(
    channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb,
    priority smallint, max_attempts integer, expires_at timestamptz, expires_after interval)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN pgqueue_enqueue_now_v1(
        channel, key, task, payload, body, pgqueue_produced_v1(task, metadata), options, priority, max_attempts,
        expires_at, expires_after, NULL);
END $$;

CREATE FUNCTION pgqueue_produce_event_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN pgqueue_publish_v1(topic, key, payload, pgqueue_said_v1(metadata));
END $$;

CREATE FUNCTION pgqueue_produce_flow_v1(id bigint, name text, handler_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM pgqueue_check_reserved_v1('flow', ARRAY[$1]);
    IF $3 IS NOT NULL THEN
        PERFORM pgqueue_check_reserved_v1('message', ARRAY[$3]);
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id) VALUES ($1, $2, $3);
END $$;

-- Have messages of a flow wait for others of it: `children` with what each does if a parent fails, and then the pairs.
CREATE FUNCTION pgqueue_produce_waits_v1(
    flow_id bigint, children bigint[], on_failures text[], waiting bigint[], parents bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM pgqueue_check_reserved_v1('flow', ARRAY[$1]), pgqueue_check_reserved_v1('message', $2 || $4 || $5);
    INSERT INTO pgqueue_dependency (flow_id, child_id, parent_id)
    SELECT $1, p.child, p.parent FROM unnest($4, $5) AS p (child, parent);
    INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
    SELECT c.child, $1, (SELECT min(p.parent) FROM unnest($4, $5) AS p (child, parent) WHERE p.child = c.child), c.on_failure
    FROM unnest($2, $3) AS c (child, on_failure);
END $$;

CREATE FUNCTION pgqueue_produce_remembered_v1(ids text[], lasting interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY SELECT pgqueue_remember_v1($1, $2);
END $$;

-- Who acts, and why, as the transaction says: a JSON object, or a text, which is the user. What a session says that may
-- not store events is recorded with its role. The triggers of `TrackTable` run as their owner: so the role that has
-- logged in is asked about.
CREATE OR REPLACE FUNCTION pgqueue_acting_v1() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN who = '{}' OR has_column_privilege(session_user, 'pgqueue_event_inbox'::regclass, 'metadata', 'INSERT') THEN who
                ELSE who || jsonb_build_object('session_user', session_user::text) END
    FROM (SELECT CASE WHEN said IS NULL OR said = '' THEN '{}'
                      WHEN said LIKE '{%' THEN said::jsonb
                      ELSE jsonb_build_object('user', said) END AS who
          FROM (SELECT current_setting('pgqueue.acting', true) OFFSET 0) AS setting (said) OFFSET 0) AS known
$$;

-- End messages that do not run, whatever their state, and write them to history: what operators' verbs do. Whoever may
-- not write to history itself does no more than this.
CREATE FUNCTION pgqueue_end_v1(ids bigint[], how text)
RETURNS TABLE (id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    IF NOT has_table_privilege('pgqueue_history'::regclass, 'INSERT') THEN
        RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_operate_end_v1($1, $2) e;
        RETURN;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM pgqueue_message m WHERE m.id = ANY ($1) AND m.state <> 'running' RETURNING m.*
    ), kept AS (
        INSERT INTO pgqueue_history (
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, outcome)
        SELECT
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, $2
        FROM gone
    )
    SELECT g.id, g.channel, g.key, g.governed, g.flow_id, $2 FROM gone g;
END $$;

CREATE FUNCTION pgqueue_operate_end_v1(ids bigint[], how text)
RETURNS TABLE (id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF $2 IS NULL OR $2 NOT IN ('cancelled', 'discarded') THEN
        RAISE EXCEPTION '% is no outcome that an operator decides.', quote_nullable($2)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_end_v1($1, $2) e;
END $$;

-- They trust no temporary table, and no other schema; and they are for the roles that roles.sql names.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
        WHERE c.oid = 'pgqueue_message'::regclass AND p.prosecdef AND p.proname ~ '^pgqueue_(produce|operate)_'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function,
                       (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE c.oid = 'pgqueue_message'::regclass));
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;

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

-- What one session at a time may do: it locks the row. An advisory lock would be anybody's who may log in.
CREATE TABLE pgqueue_lock (name text PRIMARY KEY);
INSERT INTO pgqueue_lock (name) VALUES ('route'), ('sequence');

-- Roles that a project has made by itself, and that work, go on to do so.
DO $$
DECLARE
    worker record;
BEGIN
    FOR worker IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS name
        FROM pg_class c
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'pgqueue_bell'::regclass AND a.privilege_type = 'DELETE' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, UPDATE ON pgqueue_lock TO %s', worker.name);
        EXECUTE format('GRANT SELECT, INSERT, DELETE ON pgqueue_operation TO %s', worker.name);
    END LOOP;
END $$;
