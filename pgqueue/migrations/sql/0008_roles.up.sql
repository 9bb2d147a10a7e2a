-- What a producer and an operator may do, in functions that run as the owner of the tables. A role that may only call these
-- chooses no id, no state and no counter, calls none of pgqueue's own tasks, and forges no end of another message.

-- Ids that a producer has taken for messages and flows, which it stores later in the same transaction. Another
-- transaction can't use them, and a producer can't use ids that it has not taken. A crash of the server empties the
-- table, and ends these transactions.
CREATE UNLOGGED TABLE pgqueue_reserved (
    txid xid8 NOT NULL,
    kind text NOT NULL,
    ids int8multirange NOT NULL
);

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
    FROM pgqueue_enqueue_v1(
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

CREATE FUNCTION pgqueue_produce_flow_v1(id bigint, name text, handler_id bigint, names jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    members bigint[] := array_remove(ARRAY(SELECT value::bigint FROM jsonb_each_text($4)) || $3, NULL);
BEGIN
    PERFORM pgqueue_check_reserved_v1('flow', ARRAY[$1]);
    IF members <> '{}' THEN
        PERFORM pgqueue_check_reserved_v1('message', members);
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id, names) VALUES ($1, $2, $3, $4);
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

-- All functions that run as the owner trust no temporary table and no other schema. Only the roles that roles.sql names
-- may call them.
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
