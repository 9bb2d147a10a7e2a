SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.pgqueue_channel_changed_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO pgqueue_bell (channel) VALUES (coalesce(NEW.name, OLD.name));
    PERFORM pgqueue_tell_v1(coalesce(NEW.name, OLD.name));
    RETURN NULL;
END $$;
CREATE FUNCTION public.pgqueue_enqueue(task text, payload jsonb DEFAULT '{"args": [], "kwargs": {}}'::jsonb, channel text DEFAULT 'default'::text, key text DEFAULT ''::text, priority integer DEFAULT 0, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, run_after interval DEFAULT NULL::interval, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_after interval DEFAULT NULL::interval, max_attempts integer DEFAULT 5, ordered boolean DEFAULT false, dedupe_key text DEFAULT NULL::text, dedupe_for interval DEFAULT NULL::interval, replaces boolean DEFAULT false, held_for interval DEFAULT NULL::interval, metadata jsonb DEFAULT '{}'::jsonb, body bytea DEFAULT NULL::bytea) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    stored record;
BEGIN
    stored := pgqueue_enqueue_v1(
        channel, key, task, payload, body, metadata, NULL, priority::smallint, max_attempts, run_at, run_after,
        expires_at, expires_after, held_for, ordered, dedupe_key, dedupe_for, replaces, NULL, NULL);
    IF stored.came_of = 'full' THEN
        RAISE EXCEPTION 'The channel % is full for key %.', quote_literal(channel), quote_literal(key)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'A policy bounds its max_size.';
    END IF;
    RETURN stored.id;
END $$;
CREATE FUNCTION public.pgqueue_enqueue_now_v1(channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb, priority smallint, max_attempts integer, expires_at timestamp with time zone, expires_after interval, parent_id bigint) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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
CREATE FUNCTION public.pgqueue_enqueue_v1(channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb, priority smallint, max_attempts integer, run_at timestamp with time zone, run_after interval, expires_at timestamp with time zone, expires_after interval, held_for interval, ordered boolean, dedupe_key text, dedupe_for interval, replaces boolean, parent_id bigint, reserved bigint, OUT id bigint, OUT state text, OUT due_at timestamp with time zone, OUT created_at timestamp with time zone, OUT is_told boolean, OUT came_of text) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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
CREATE FUNCTION public.pgqueue_is_governed_v1(channel text, key text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $_$
BEGIN
    -- Each by an index, since thousands of keys may have policies.
    RETURN EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'channel' AND p.key = '' AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'each' AND p.key = '' AND p.governs AND $2 <> '')
        OR EXISTS (SELECT FROM pgqueue_policy p
                   WHERE p.channel = $1 AND p.scope = 'key' AND p.key = $2 AND p.governs)
        OR EXISTS (SELECT FROM pgqueue_policy p WHERE p.channel = $1 AND p.weight IS NOT NULL);
END $_$;
CREATE FUNCTION public.pgqueue_keep_order_v1(channel text, key text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    PERFORM pg_advisory_xact_lock(
        hashtextextended('order' || chr(31) || $1 || chr(31) || $2, 'pgqueue_message'::regclass::oid::bigint));
END $_$;
CREATE FUNCTION public.pgqueue_notice_v1(channel text, id bigint, event text, outcome text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_channel c WHERE c.name = $1 AND c.watched) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1() || '_notices',
                      json_build_object('channel', $1, 'id', $2, 'event', $3, 'outcome', $4)::text);
    RETURN true;
END $_$;
CREATE FUNCTION public.pgqueue_notifications_v1() RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT 'pgqueue_' || 'pgqueue_message'::regclass::oid
$$;
CREATE FUNCTION public.pgqueue_policy_changed_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION public.pgqueue_room_v1(channel text, key text) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $_$
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
END $_$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.pgqueue_message (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    options jsonb,
    priority smallint DEFAULT 0 NOT NULL,
    rank smallint GENERATED ALWAYS AS ((priority * '-1'::integer)) STORED,
    state text NOT NULL,
    run_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    expires_at timestamp with time zone,
    lease_until timestamp with time zone,
    worker_id uuid,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    lost integer DEFAULT 0 NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean DEFAULT false NOT NULL,
    governed boolean DEFAULT false NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    debounced boolean DEFAULT false NOT NULL,
    progress jsonb,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT pgqueue_message_priority CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT pgqueue_message_state CHECK ((state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text, 'running'::text, 'dead'::text])))
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='50000', autovacuum_vacuum_cost_delay='0', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='1000', toast.autovacuum_vacuum_insert_scale_factor='0', toast.autovacuum_vacuum_insert_threshold='100000', toast.autovacuum_vacuum_cost_delay='0');
CREATE FUNCTION public.pgqueue_store_once_v1(given public.pgqueue_message, dedupe_for interval, replaces boolean, OUT id bigint, OUT came_of text) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
            WHERE m.state IN ('held', 'scheduled', 'ready')
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
CREATE FUNCTION public.pgqueue_tell_promoter_v1(due timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_duty WHERE name = 'promote' AND due_at > due)
       OR NOT EXISTS (SELECT FROM pgqueue_worker
                      WHERE last_seen > clock_timestamp() - interval '2 minutes')
    THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1(), '');
    RETURN true;
END $$;
CREATE FUNCTION public.pgqueue_tell_v1(channel text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pgqueue_worker w
        WHERE (channel = ANY (w.channels) OR w.channels IS NULL AND channel <> ALL (w.excluded))
          AND w.notify_until > clock_timestamp())
    THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1(), channel);
    RETURN true;
END $$;
CREATE FUNCTION public.pgqueue_tell_waiters_v1(id bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
BEGIN
    PERFORM pg_notify(pgqueue_notifications_v1() || '_results', $1::text);
    RETURN true;
END $_$;
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_bell (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE public.pgqueue_bell ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_bell_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_channel (
    name text NOT NULL COLLATE pg_catalog."C",
    paused boolean DEFAULT false NOT NULL,
    retention interval,
    retention_succeeded interval,
    retention_cancelled interval,
    retention_discarded interval,
    retention_expired interval,
    dead_retention interval,
    on_dead text DEFAULT 'block'::text NOT NULL,
    on_full text DEFAULT 'refuse'::text NOT NULL,
    handler text DEFAULT ''::text NOT NULL,
    watched boolean DEFAULT false NOT NULL,
    CONSTRAINT pgqueue_channel_retention CHECK ((((dead_retention >= '00:00:00.000001'::interval) AND (dead_retention <= '36525 days'::interval)) AND ((retention >= '00:00:00.000001'::interval) AND (retention <= '36525 days'::interval)) AND ((retention_cancelled >= '00:00:00.000001'::interval) AND (retention_cancelled <= '36525 days'::interval)) AND ((retention_discarded >= '00:00:00.000001'::interval) AND (retention_discarded <= '36525 days'::interval)) AND ((retention_expired >= '00:00:00.000001'::interval) AND (retention_expired <= '36525 days'::interval)) AND ((retention_succeeded >= '00:00:00.000001'::interval) AND (retention_succeeded <= '36525 days'::interval))))
);
CREATE TABLE public.pgqueue_dedupe (
    channel text NOT NULL COLLATE pg_catalog."C",
    dedupe_key text NOT NULL COLLATE pg_catalog."C",
    message_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.pgqueue_duty (
    name text NOT NULL COLLATE pg_catalog."C",
    due_at timestamp with time zone NOT NULL,
    ran_at timestamp with time zone
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_gate (
    channel text NOT NULL COLLATE pg_catalog."C",
    tat timestamp with time zone NOT NULL,
    wake_at timestamp with time zone
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_history (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
)
PARTITION BY RANGE (finished_at);
CREATE TABLE public.pgqueue_history_20261124 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261125 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261126 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261127 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261128 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261129 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261130 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261201 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261202 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261203 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261204 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261205 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261206 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261207 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261208 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_history_20261209 (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    payload jsonb,
    body bytea,
    metadata jsonb NOT NULL,
    options jsonb,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    worker_id uuid,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    max_attempts integer NOT NULL,
    ordered boolean NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    progress jsonb,
    errors jsonb NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text])))
);
CREATE TABLE public.pgqueue_lane (
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    turn_at timestamp with time zone NOT NULL,
    tat timestamp with time zone NOT NULL,
    wake_at timestamp with time zone,
    CONSTRAINT pgqueue_lane_state CHECK ((state = ANY (ARRAY['idle'::text, 'runnable'::text, 'saturated'::text, 'throttled'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE public.pgqueue_message ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_policy (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    max_running integer,
    rate double precision,
    per interval DEFAULT '00:00:01'::interval NOT NULL,
    burst integer,
    max_size integer,
    weight smallint,
    governs boolean GENERATED ALWAYS AS (((max_running IS NOT NULL) OR (rate IS NOT NULL) OR (weight IS NOT NULL))) STORED,
    CONSTRAINT pgqueue_policy_burst CHECK ((burst >= 1)),
    CONSTRAINT pgqueue_policy_max_running CHECK ((max_running >= 1)),
    CONSTRAINT pgqueue_policy_max_size CHECK ((max_size >= 1)),
    CONSTRAINT pgqueue_policy_pace CHECK (((((EXTRACT(epoch FROM per))::double precision / NULLIF(rate, (0.0)::double precision)) >= (0.000001)::double precision) AND ((((EXTRACT(epoch FROM per))::double precision / NULLIF(rate, (0.0)::double precision)) * (COALESCE(burst, 1))::double precision) <= (3162240000.0)::double precision))),
    CONSTRAINT pgqueue_policy_per CHECK (((per > '00:00:00'::interval) AND (per <= '366 days'::interval))),
    CONSTRAINT pgqueue_policy_rate CHECK (((rate >= (0.000001)::double precision) AND (rate <= (1000000.0)::double precision))),
    CONSTRAINT pgqueue_policy_scope CHECK ((((scope = 'key'::text) AND (NOT (key = ''::text))) OR ((key = ''::text) AND (scope = ANY (ARRAY['channel'::text, 'each'::text]))))),
    CONSTRAINT pgqueue_policy_weight CHECK (((weight IS NULL) OR (((weight >= 1) AND (weight <= 100)) AND (NOT (scope = 'channel'::text)))))
);
ALTER TABLE public.pgqueue_policy ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_policy_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_purged (
    keep interval NOT NULL,
    rules text NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_schedule (
    name text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    cron text DEFAULT ''::text NOT NULL,
    every interval,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    args jsonb DEFAULT '[]'::jsonb NOT NULL,
    kwargs jsonb DEFAULT '{}'::jsonb NOT NULL,
    channel text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    priority smallint,
    missed text DEFAULT 'once'::text NOT NULL,
    overlap text DEFAULT 'allow'::text NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone,
    ticked_at timestamp with time zone,
    message_id bigint,
    error text DEFAULT ''::text NOT NULL,
    declared boolean DEFAULT false NOT NULL,
    definition text DEFAULT ''::text NOT NULL,
    superseded text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    seen_at timestamp with time zone,
    CONSTRAINT pgqueue_schedule_every CHECK (((every >= '00:00:01'::interval) AND (every <= '366 days'::interval))),
    CONSTRAINT pgqueue_schedule_missed CHECK ((missed = ANY (ARRAY['skip'::text, 'once'::text, 'all'::text]))),
    CONSTRAINT pgqueue_schedule_overlap CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text, 'one'::text]))),
    CONSTRAINT pgqueue_schedule_when CHECK ((((NOT (cron = ''::text)) AND (every IS NULL)) OR ((cron = ''::text) AND (every IS NOT NULL))))
);
CREATE TABLE public.pgqueue_waiter (
    id bigint NOT NULL,
    message_id bigint NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_threshold='1000', autovacuum_vacuum_scale_factor='0');
ALTER TABLE public.pgqueue_waiter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_waiter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_worker (
    id uuid NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    channels text[] COLLATE pg_catalog."C",
    excluded text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    notify_until timestamp with time zone,
    info jsonb DEFAULT '{}'::jsonb NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261124 FOR VALUES FROM ('2026-11-24 00:00:00+00') TO ('2026-11-25 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261125 FOR VALUES FROM ('2026-11-25 00:00:00+00') TO ('2026-11-26 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261126 FOR VALUES FROM ('2026-11-26 00:00:00+00') TO ('2026-11-27 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261127 FOR VALUES FROM ('2026-11-27 00:00:00+00') TO ('2026-11-28 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261128 FOR VALUES FROM ('2026-11-28 00:00:00+00') TO ('2026-11-29 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261129 FOR VALUES FROM ('2026-11-29 00:00:00+00') TO ('2026-11-30 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261130 FOR VALUES FROM ('2026-11-30 00:00:00+00') TO ('2026-12-01 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261201 FOR VALUES FROM ('2026-12-01 00:00:00+00') TO ('2026-12-02 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261202 FOR VALUES FROM ('2026-12-02 00:00:00+00') TO ('2026-12-03 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261203 FOR VALUES FROM ('2026-12-03 00:00:00+00') TO ('2026-12-04 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261204 FOR VALUES FROM ('2026-12-04 00:00:00+00') TO ('2026-12-05 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261205 FOR VALUES FROM ('2026-12-05 00:00:00+00') TO ('2026-12-06 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261206 FOR VALUES FROM ('2026-12-06 00:00:00+00') TO ('2026-12-07 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261207 FOR VALUES FROM ('2026-12-07 00:00:00+00') TO ('2026-12-08 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261208 FOR VALUES FROM ('2026-12-08 00:00:00+00') TO ('2026-12-09 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261209 FOR VALUES FROM ('2026-12-09 00:00:00+00') TO ('2026-12-10 00:00:00+00');
INSERT INTO public.auth_permission VALUES (1, 'Can add content type', 1, 'add_contenttype');
INSERT INTO public.auth_permission VALUES (2, 'Can change content type', 1, 'change_contenttype');
INSERT INTO public.auth_permission VALUES (3, 'Can delete content type', 1, 'delete_contenttype');
INSERT INTO public.auth_permission VALUES (4, 'Can view content type', 1, 'view_contenttype');
INSERT INTO public.auth_permission VALUES (5, 'Can add permission', 2, 'add_permission');
INSERT INTO public.auth_permission VALUES (6, 'Can change permission', 2, 'change_permission');
INSERT INTO public.auth_permission VALUES (7, 'Can delete permission', 2, 'delete_permission');
INSERT INTO public.auth_permission VALUES (8, 'Can view permission', 2, 'view_permission');
INSERT INTO public.auth_permission VALUES (9, 'Can add group', 3, 'add_group');
INSERT INTO public.auth_permission VALUES (10, 'Can change group', 3, 'change_group');
INSERT INTO public.auth_permission VALUES (11, 'Can delete group', 3, 'delete_group');
INSERT INTO public.auth_permission VALUES (12, 'Can view group', 3, 'view_group');
INSERT INTO public.auth_permission VALUES (13, 'Can add user', 4, 'add_user');
INSERT INTO public.auth_permission VALUES (14, 'Can change user', 4, 'change_user');
INSERT INTO public.auth_permission VALUES (15, 'Can delete user', 4, 'delete_user');
INSERT INTO public.auth_permission VALUES (16, 'Can view user', 4, 'view_user');
INSERT INTO public.auth_permission VALUES (17, 'Can add channel', 5, 'add_channel');
INSERT INTO public.auth_permission VALUES (18, 'Can change channel', 5, 'change_channel');
INSERT INTO public.auth_permission VALUES (19, 'Can delete channel', 5, 'delete_channel');
INSERT INTO public.auth_permission VALUES (20, 'Can view channel', 5, 'view_channel');
INSERT INTO public.auth_permission VALUES (21, 'Can add policy', 6, 'add_policy');
INSERT INTO public.auth_permission VALUES (22, 'Can change policy', 6, 'change_policy');
INSERT INTO public.auth_permission VALUES (23, 'Can delete policy', 6, 'delete_policy');
INSERT INTO public.auth_permission VALUES (24, 'Can view policy', 6, 'view_policy');
INSERT INTO public.auth_permission VALUES (25, 'Can add message', 7, 'add_message');
INSERT INTO public.auth_permission VALUES (26, 'Can change message', 7, 'change_message');
INSERT INTO public.auth_permission VALUES (27, 'Can delete message', 7, 'delete_message');
INSERT INTO public.auth_permission VALUES (28, 'Can view message', 7, 'view_message');
INSERT INTO public.auth_permission VALUES (29, 'Can run, cancel and replay messages', 7, 'operate_message');
INSERT INTO public.auth_permission VALUES (30, 'Can discard messages', 7, 'purge_message');
INSERT INTO public.auth_permission VALUES (31, 'Can add history', 9, 'add_history');
INSERT INTO public.auth_permission VALUES (32, 'Can change history', 9, 'change_history');
INSERT INTO public.auth_permission VALUES (33, 'Can delete history', 9, 'delete_history');
INSERT INTO public.auth_permission VALUES (34, 'Can view history', 9, 'view_history');
INSERT INTO public.auth_permission VALUES (35, 'Can add worker', 15, 'add_worker');
INSERT INTO public.auth_permission VALUES (36, 'Can change worker', 15, 'change_worker');
INSERT INTO public.auth_permission VALUES (37, 'Can delete worker', 15, 'delete_worker');
INSERT INTO public.auth_permission VALUES (38, 'Can view worker', 15, 'view_worker');
INSERT INTO public.auth_permission VALUES (39, 'Can add schedule', 17, 'add_schedule');
INSERT INTO public.auth_permission VALUES (40, 'Can change schedule', 17, 'change_schedule');
INSERT INTO public.auth_permission VALUES (41, 'Can delete schedule', 17, 'delete_schedule');
INSERT INTO public.auth_permission VALUES (42, 'Can view schedule', 17, 'view_schedule');
INSERT INTO public.django_content_type VALUES (1, 'contenttypes', 'contenttype');
INSERT INTO public.django_content_type VALUES (2, 'auth', 'permission');
INSERT INTO public.django_content_type VALUES (3, 'auth', 'group');
INSERT INTO public.django_content_type VALUES (4, 'auth', 'user');
INSERT INTO public.django_content_type VALUES (5, 'pgqueue', 'channel');
INSERT INTO public.django_content_type VALUES (6, 'pgqueue', 'policy');
INSERT INTO public.django_content_type VALUES (7, 'pgqueue', 'message');
INSERT INTO public.django_content_type VALUES (8, 'pgqueue', 'dedupe');
INSERT INTO public.django_content_type VALUES (9, 'pgqueue', 'history');
INSERT INTO public.django_content_type VALUES (10, 'pgqueue', 'purged');
INSERT INTO public.django_content_type VALUES (11, 'pgqueue', 'lane');
INSERT INTO public.django_content_type VALUES (12, 'pgqueue', 'gate');
INSERT INTO public.django_content_type VALUES (13, 'pgqueue', 'bell');
INSERT INTO public.django_content_type VALUES (14, 'pgqueue', 'waiter');
INSERT INTO public.django_content_type VALUES (15, 'pgqueue', 'worker');
INSERT INTO public.django_content_type VALUES (16, 'pgqueue', 'duty');
INSERT INTO public.django_content_type VALUES (17, 'pgqueue', 'schedule');
INSERT INTO public.django_migrations VALUES (1, 'contenttypes', '0001_initial', '2026-11-25 18:03:53.253954+00');
INSERT INTO public.django_migrations VALUES (2, 'contenttypes', '0002_remove_content_type_name', '2026-11-25 18:03:53.259378+00');
INSERT INTO public.django_migrations VALUES (3, 'auth', '0001_initial', '2026-11-25 18:03:53.323024+00');
INSERT INTO public.django_migrations VALUES (4, 'auth', '0002_alter_permission_name_max_length', '2026-11-25 18:03:53.333359+00');
INSERT INTO public.django_migrations VALUES (5, 'auth', '0003_alter_user_email_max_length', '2026-11-25 18:03:53.342505+00');
INSERT INTO public.django_migrations VALUES (6, 'auth', '0004_alter_user_username_opts', '2026-11-25 18:03:53.34777+00');
INSERT INTO public.django_migrations VALUES (7, 'auth', '0005_alter_user_last_login_null', '2026-11-25 18:03:53.353566+00');
INSERT INTO public.django_migrations VALUES (8, 'auth', '0006_require_contenttypes_0002', '2026-11-25 18:03:53.354707+00');
INSERT INTO public.django_migrations VALUES (9, 'auth', '0007_alter_validators_add_error_messages', '2026-11-25 18:03:53.361383+00');
INSERT INTO public.django_migrations VALUES (10, 'auth', '0008_alter_user_username_max_length', '2026-11-25 18:03:53.369507+00');
INSERT INTO public.django_migrations VALUES (11, 'auth', '0009_alter_user_last_name_max_length', '2026-11-25 18:03:53.375466+00');
INSERT INTO public.django_migrations VALUES (12, 'auth', '0010_alter_group_name_max_length', '2026-11-25 18:03:53.381905+00');
INSERT INTO public.django_migrations VALUES (13, 'auth', '0011_update_proxy_permissions', '2026-11-25 18:03:53.386767+00');
INSERT INTO public.django_migrations VALUES (14, 'auth', '0012_alter_user_first_name_max_length', '2026-11-25 18:03:53.392377+00');
INSERT INTO public.django_migrations VALUES (15, 'pgqueue', '0001_initial', '2026-11-25 18:03:53.821123+00');
INSERT INTO public.django_migrations VALUES (16, 'pgqueue', '0002_storage', '2026-11-25 18:03:53.826222+00');
INSERT INTO public.django_migrations VALUES (17, 'pgqueue', '0003_functions', '2026-11-25 18:03:53.83381+00');
INSERT INTO public.pgqueue_bell VALUES (4, 'mail', 'ada');
INSERT INTO public.pgqueue_bell VALUES (5, 'mail', 'ada');
INSERT INTO public.pgqueue_channel VALUES ('mail', false, '3650 days', NULL, NULL, NULL, NULL, '3650 days', 'block', 'refuse', '', false);
INSERT INTO public.pgqueue_duty VALUES ('rescue', '2026-11-25 18:03:55.074055+00', NULL);
INSERT INTO public.pgqueue_duty VALUES ('schedule', '2026-11-25 18:03:56.090906+00', '2026-11-25 18:03:55.090906+00');
INSERT INTO public.pgqueue_duty VALUES ('expire', '2026-11-25 18:03:56.104949+00', '2026-11-25 18:03:55.104949+00');
INSERT INTO public.pgqueue_duty VALUES ('lanes', '2026-11-25 18:04:00.126026+00', '2026-11-25 18:03:55.126026+00');
INSERT INTO public.pgqueue_duty VALUES ('purge', '2026-11-25 18:04:55.159089+00', '2026-11-25 18:03:55.159089+00');
INSERT INTO public.pgqueue_duty VALUES ('forget', '2026-11-25 19:03:55.175148+00', '2026-11-25 18:03:55.175148+00');
INSERT INTO public.pgqueue_duty VALUES ('partitions', '2026-11-25 19:03:55.186351+00', '2026-11-25 18:03:55.186352+00');
INSERT INTO public.pgqueue_duty VALUES ('promote', '2026-11-25 18:03:56.187842+00', '2026-11-25 18:03:55.187843+00');
INSERT INTO public.pgqueue_history_20261125 VALUES (4, 'default', '', 'tests.upgrade.tasks.add', '{"args": [5, 6], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-25 19:03:54.069423+00', NULL, NULL, 0, 0, 0, 5, false, NULL, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:54.069423+00', 'cancelled', NULL, '2026-11-25 18:03:54.149206+00', 758);
INSERT INTO public.pgqueue_history_20261125 VALUES (5, 'default', '', 'tests.upgrade.tasks.add', '{"args": [5, 6], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-25 19:03:54.157329+00', '2026-11-25 18:03:54.167329+00', NULL, 0, 0, 0, 5, false, NULL, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:54.157329+00', 'expired', NULL, '2026-11-25 18:03:55.096492+00', 768);
INSERT INTO public.pgqueue_history_20261125 VALUES (1, 'default', '', 'tests.upgrade.tasks.add', '{"args": [1, 2], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-25 18:03:53.882867+00', NULL, '8a63f26c-3acc-4068-aa52-350900000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-25 18:03:55.088042+00', '2026-11-25 18:03:55.093999+00', NULL, NULL, '2026-11-25 18:03:53.882867+00', 'succeeded', '3', '2026-11-25 18:03:55.094545+00', 776);
INSERT INTO public.pgqueue_history_20261125 VALUES (3, 'default', '', 'tests.upgrade.tasks.typed', '{"args": ["2026-01-02", "9.90"], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-25 18:03:53.886176+00', NULL, '8a63f26c-3acc-4068-aa52-350900000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-25 18:03:55.114704+00', '2026-11-25 18:03:55.117501+00', NULL, NULL, '2026-11-25 18:03:53.886176+00', 'succeeded', '[{"@": "date", "value": "2026-01-02"}, {"@": "Decimal", "value": "9.90"}]', '2026-11-25 18:03:55.137458+00', 777);
INSERT INTO public.pgqueue_history_20261125 VALUES (2, 'default', '', 'tests.upgrade.tasks.add', '{"args": [3, 4], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-25 18:03:53.882867+00', NULL, '8a63f26c-3acc-4068-aa52-350900000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-25 18:03:55.109422+00', '2026-11-25 18:03:55.111405+00', NULL, NULL, '2026-11-25 18:03:53.882867+00', 'succeeded', '7', '2026-11-25 18:03:55.111527+00', 782);
INSERT INTO public.pgqueue_lane VALUES ('mail', '', 'idle', '2026-11-25 18:03:55.177335+00', '1970-01-01 00:00:00+00', NULL);
INSERT INTO public.pgqueue_message VALUES (6, 'mail', '', 'tests.upgrade.tasks.fail', '{"args": ["failing"], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'dead', '2026-11-25 18:03:54.214164+00', NULL, NULL, NULL, 1, 1, 0, 1, false, false, NULL, false, NULL, '[{"at": "2026-11-25T18:03:55.138009+00:00", "class": "builtins.ValueError", "worker": "8a63f26c-3acc-4068-aa52-350900000001", "attempt": 1, "message": "It fails in the first version.", "traceback": "Traceback (most recent call last):\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 167, in _run\n    outcome = self._outcome(run)\n              ^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 183, in _outcome\n    return self._ended(run, lambda: self._value(run))\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 201, in _ended\n    returned = value()\n               ^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 183, in <lambda>\n    return self._ended(run, lambda: self._value(run))\n                                    ^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 210, in _value\n    return self._returned(run)\n           ^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 223, in _returned\n    return task.call(*args, **kwargs)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/tasks/definition.py\", line 238, in call\n    result: T = function(*args, **kwargs)\n                ^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/tests/upgrade/tasks.py\", line 28, in fail\n    raise ValueError(\"It fails in the first version.\")\nValueError: It fails in the first version.\n"}]', '2026-11-25 18:03:55.093991+00', '2026-11-25 18:03:55.096908+00', NULL, NULL, '2026-11-25 18:03:54.214164+00');
INSERT INTO public.pgqueue_message VALUES (7, 'default', '', 'tests.upgrade.tasks.fail_once', '{"args": ["failing"], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'scheduled', '2026-11-25 19:03:55.172339+00', NULL, NULL, NULL, 1, 1, 0, 5, false, false, NULL, false, NULL, '[{"at": "2026-11-25T18:03:55.172339+00:00", "class": "builtins.ValueError", "worker": "8a63f26c-3acc-4068-aa52-350900000001", "attempt": 1, "message": "It fails in the first version.", "traceback": "Traceback (most recent call last):\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 167, in _run\n    outcome = self._outcome(run)\n              ^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 183, in _outcome\n    return self._ended(run, lambda: self._value(run))\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 201, in _ended\n    returned = value()\n               ^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 183, in <lambda>\n    return self._ended(run, lambda: self._value(run))\n                                    ^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 210, in _value\n    return self._returned(run)\n           ^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/worker/runner.py\", line 223, in _returned\n    return task.call(*args, **kwargs)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/pgqueue/tasks/definition.py\", line 238, in call\n    result: T = function(*args, **kwargs)\n                ^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/tests/upgrade/tasks.py\", line 34, in fail_once\n    return str(fail.func(while_there_is))\n               ^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpkq22y0p4/tests/upgrade/tasks.py\", line 28, in fail\n    raise ValueError(\"It fails in the first version.\")\nValueError: It fails in the first version.\n"}]', '2026-11-25 18:03:55.12087+00', '2026-11-25 18:03:55.16107+00', NULL, NULL, '2026-11-25 18:03:54.314503+00');
INSERT INTO public.pgqueue_message VALUES (8, 'default', '', 'tests.upgrade.tasks.die', '{"args": [], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'running', '2026-11-25 18:03:55.235283+00', NULL, '2026-11-25 18:03:56.990325+00', 'e16bb961-599b-4607-85b7-5d4700000001', 1, 0, 0, 5, false, false, NULL, false, NULL, '[]', '2026-11-25 18:03:55.990325+00', NULL, NULL, NULL, '2026-11-25 18:03:55.235283+00');
INSERT INTO public.pgqueue_message VALUES (9, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [7, 8], "kwargs": {}}', NULL, '{}', NULL, 10, DEFAULT, 'ready', '2026-11-25 18:03:56.002386+00', NULL, NULL, NULL, 0, 0, 0, 5, false, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.002386+00');
INSERT INTO public.pgqueue_message VALUES (10, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [9, 10], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-25 18:03:56.144279+00', NULL, NULL, NULL, 0, 0, 0, 5, true, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.144279+00');
INSERT INTO public.pgqueue_message VALUES (11, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [11, 12], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-25 18:03:56.144279+00', NULL, NULL, NULL, 0, 0, 0, 5, true, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.144279+00');
INSERT INTO public.pgqueue_message VALUES (12, 'default', '', 'tests.upgrade.tasks.add', '{"args": [13, 14], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'scheduled', '2026-11-25 18:04:56.147858+00', NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.147858+00');
INSERT INTO public.pgqueue_message VALUES (13, 'default', '', 'tests.upgrade.tasks.add', '{"args": [15, 16], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-25 18:03:56.194847+00', NULL, NULL, NULL, 0, 0, 0, 5, false, false, 'once', false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.194847+00');
INSERT INTO public.pgqueue_message VALUES (14, 'default', '', 'tests.upgrade.tasks.add', '{"args": [17, 18], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'held', '2026-11-25 18:03:56.237357+00', NULL, '2036-11-22 18:03:56.237357+00', NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.237357+00');
INSERT INTO public.pgqueue_message VALUES (15, 'default', '', 'tests.upgrade.tasks.typed', '{"args": ["2026-01-02", "9.90", {"@": "set", "value": [1, 2]}, {"@": "bytes", "value": "eA=="}], "kwargs": {}}', NULL, '{"trace": "abc"}', NULL, 0, DEFAULT, 'ready', '2026-11-25 18:03:56.241434+00', NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.241434+00');
INSERT INTO public.pgqueue_message VALUES (16, 'raw', 'k', '', '{"to": "ada"}', '\x0001', '{}', NULL, 0, DEFAULT, 'ready', '2026-11-25 18:03:56.353245+00', NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, '2026-11-25 18:03:56.353245+00');
INSERT INTO public.pgqueue_policy VALUES (1, 'mail', 'each', '', 2, 100, '00:00:01', NULL, NULL, NULL, DEFAULT);
INSERT INTO public.pgqueue_purged VALUES ('30 days', '1105e868e4a89ece340f136d587fe6bc', '2026-10-26 18:03:55.145217+00');
INSERT INTO public.pgqueue_schedule VALUES ('daily', 'tests.upgrade.tasks.add', '@daily', NULL, 'UTC', '[1, 1]', '{}', '', NULL, 'once', 'allow', true, NULL, NULL, NULL, '', false, '', '{}', NULL);
INSERT INTO public.pgqueue_worker VALUES ('e16bb961-599b-4607-85b7-5d4700000001', 'vm', 18532, '2026-11-25 18:03:55.89201+00', '2026-11-25 18:03:55.973345+00', NULL, '{}', NULL, '{"async": 0, "duties": true, "threads": 1, "version": "0.1.0"}');
SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 42, true);
SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 17, true);
SELECT pg_catalog.setval('public.django_migrations_id_seq', 17, true);
SELECT pg_catalog.setval('public.pgqueue_bell_id_seq', 5, true);
SELECT pg_catalog.setval('public.pgqueue_message_id_seq', 16, true);
SELECT pg_catalog.setval('public.pgqueue_policy_id_seq', 1, true);
SELECT pg_catalog.setval('public.pgqueue_waiter_id_seq', 1, false);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_bell
    ADD CONSTRAINT pgqueue_bell_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_channel
    ADD CONSTRAINT pgqueue_channel_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_dedupe
    ADD CONSTRAINT pgqueue_dedupe_pkey PRIMARY KEY (channel, dedupe_key);
ALTER TABLE ONLY public.pgqueue_duty
    ADD CONSTRAINT pgqueue_duty_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_gate
    ADD CONSTRAINT pgqueue_gate_pkey PRIMARY KEY (channel);
ALTER TABLE ONLY public.pgqueue_lane
    ADD CONSTRAINT pgqueue_lane_pkey PRIMARY KEY (channel, key);
ALTER TABLE ONLY public.pgqueue_message
    ADD CONSTRAINT pgqueue_message_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_policy
    ADD CONSTRAINT pgqueue_policy_once UNIQUE (channel, scope, key);
ALTER TABLE ONLY public.pgqueue_policy
    ADD CONSTRAINT pgqueue_policy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_purged
    ADD CONSTRAINT pgqueue_purged_pkey PRIMARY KEY (keep);
ALTER TABLE ONLY public.pgqueue_schedule
    ADD CONSTRAINT pgqueue_schedule_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_waiter
    ADD CONSTRAINT pgqueue_waiter_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_worker
    ADD CONSTRAINT pgqueue_worker_pkey PRIMARY KEY (id);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX pgqueue_channel_name_28ecab27_like ON public.pgqueue_channel USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_dedupe_expires ON public.pgqueue_dedupe USING btree (expires_at);
CREATE INDEX pgqueue_duty_name_2e198974_like ON public.pgqueue_duty USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_gate_channel_ad1e2695_like ON public.pgqueue_gate USING btree (channel text_pattern_ops);
CREATE INDEX pgqueue_history_finished_at ON ONLY public.pgqueue_history USING brin (finished_at);
CREATE INDEX pgqueue_history_20261124_finished_at_idx ON public.pgqueue_history_20261124 USING brin (finished_at);
CREATE INDEX pgqueue_history_id ON ONLY public.pgqueue_history USING btree (id);
CREATE INDEX pgqueue_history_20261124_id_idx ON public.pgqueue_history_20261124 USING btree (id);
CREATE INDEX pgqueue_history_txid ON ONLY public.pgqueue_history USING btree (txid, id);
CREATE INDEX pgqueue_history_20261124_txid_id_idx ON public.pgqueue_history_20261124 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261125_finished_at_idx ON public.pgqueue_history_20261125 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261125_id_idx ON public.pgqueue_history_20261125 USING btree (id);
CREATE INDEX pgqueue_history_20261125_txid_id_idx ON public.pgqueue_history_20261125 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261126_finished_at_idx ON public.pgqueue_history_20261126 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261126_id_idx ON public.pgqueue_history_20261126 USING btree (id);
CREATE INDEX pgqueue_history_20261126_txid_id_idx ON public.pgqueue_history_20261126 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261127_finished_at_idx ON public.pgqueue_history_20261127 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261127_id_idx ON public.pgqueue_history_20261127 USING btree (id);
CREATE INDEX pgqueue_history_20261127_txid_id_idx ON public.pgqueue_history_20261127 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261128_finished_at_idx ON public.pgqueue_history_20261128 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261128_id_idx ON public.pgqueue_history_20261128 USING btree (id);
CREATE INDEX pgqueue_history_20261128_txid_id_idx ON public.pgqueue_history_20261128 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261129_finished_at_idx ON public.pgqueue_history_20261129 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261129_id_idx ON public.pgqueue_history_20261129 USING btree (id);
CREATE INDEX pgqueue_history_20261129_txid_id_idx ON public.pgqueue_history_20261129 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261130_finished_at_idx ON public.pgqueue_history_20261130 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261130_id_idx ON public.pgqueue_history_20261130 USING btree (id);
CREATE INDEX pgqueue_history_20261130_txid_id_idx ON public.pgqueue_history_20261130 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261201_finished_at_idx ON public.pgqueue_history_20261201 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261201_id_idx ON public.pgqueue_history_20261201 USING btree (id);
CREATE INDEX pgqueue_history_20261201_txid_id_idx ON public.pgqueue_history_20261201 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261202_finished_at_idx ON public.pgqueue_history_20261202 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261202_id_idx ON public.pgqueue_history_20261202 USING btree (id);
CREATE INDEX pgqueue_history_20261202_txid_id_idx ON public.pgqueue_history_20261202 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261203_finished_at_idx ON public.pgqueue_history_20261203 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261203_id_idx ON public.pgqueue_history_20261203 USING btree (id);
CREATE INDEX pgqueue_history_20261203_txid_id_idx ON public.pgqueue_history_20261203 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261204_finished_at_idx ON public.pgqueue_history_20261204 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261204_id_idx ON public.pgqueue_history_20261204 USING btree (id);
CREATE INDEX pgqueue_history_20261204_txid_id_idx ON public.pgqueue_history_20261204 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261205_finished_at_idx ON public.pgqueue_history_20261205 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261205_id_idx ON public.pgqueue_history_20261205 USING btree (id);
CREATE INDEX pgqueue_history_20261205_txid_id_idx ON public.pgqueue_history_20261205 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261206_finished_at_idx ON public.pgqueue_history_20261206 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261206_id_idx ON public.pgqueue_history_20261206 USING btree (id);
CREATE INDEX pgqueue_history_20261206_txid_id_idx ON public.pgqueue_history_20261206 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261207_finished_at_idx ON public.pgqueue_history_20261207 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261207_id_idx ON public.pgqueue_history_20261207 USING btree (id);
CREATE INDEX pgqueue_history_20261207_txid_id_idx ON public.pgqueue_history_20261207 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261208_finished_at_idx ON public.pgqueue_history_20261208 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261208_id_idx ON public.pgqueue_history_20261208 USING btree (id);
CREATE INDEX pgqueue_history_20261208_txid_id_idx ON public.pgqueue_history_20261208 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261209_finished_at_idx ON public.pgqueue_history_20261209 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261209_id_idx ON public.pgqueue_history_20261209 USING btree (id);
CREATE INDEX pgqueue_history_20261209_txid_id_idx ON public.pgqueue_history_20261209 USING btree (txid, id);
CREATE INDEX pgqueue_lane_runnable ON public.pgqueue_lane USING btree (channel, turn_at) WHERE (state = 'runnable'::text);
CREATE INDEX pgqueue_lane_throttled ON public.pgqueue_lane USING btree (wake_at) WHERE (state = 'throttled'::text);
CREATE INDEX pgqueue_message_dead ON public.pgqueue_message USING btree (channel, key, id) WHERE (state = 'dead'::text);
CREATE INDEX pgqueue_message_dead_since ON public.pgqueue_message USING btree (channel, claimed_at) WHERE ((claimed_at IS NOT NULL) AND (state = 'dead'::text));
CREATE UNIQUE INDEX pgqueue_message_dedupe ON public.pgqueue_message USING btree (channel, dedupe_key) WHERE ((dedupe_key IS NOT NULL) AND (state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text, 'running'::text])));
CREATE INDEX pgqueue_message_due ON public.pgqueue_message USING btree (run_at) WHERE (state = 'scheduled'::text);
CREATE INDEX pgqueue_message_expires ON public.pgqueue_message USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text])));
CREATE INDEX pgqueue_message_free ON public.pgqueue_message USING btree (channel, key, rank, run_at, id) WHERE ((NOT governed) AND (state = 'ready'::text));
CREATE INDEX pgqueue_message_governed ON public.pgqueue_message USING btree (channel, key, rank, run_at, id) WHERE (governed AND (NOT ordered) AND (state = 'ready'::text));
CREATE INDEX pgqueue_message_held ON public.pgqueue_message USING btree (id) WHERE (state = 'held'::text);
CREATE INDEX pgqueue_message_ordered ON public.pgqueue_message USING btree (channel, key, id) WHERE (ordered AND (state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text, 'running'::text])));
CREATE INDEX pgqueue_message_ordered_dead ON public.pgqueue_message USING btree (channel, key, id) WHERE (ordered AND (state = 'dead'::text));
CREATE INDEX pgqueue_message_running ON public.pgqueue_message USING btree (channel, key) WITH (deduplicate_items=off) WHERE (state = 'running'::text);
CREATE INDEX pgqueue_message_waiting ON public.pgqueue_message USING btree (channel, key) WHERE (state = ANY (ARRAY['held'::text, 'scheduled'::text]));
CREATE INDEX pgqueue_policy_sized ON public.pgqueue_policy USING btree (channel) WHERE (max_size IS NOT NULL);
CREATE INDEX pgqueue_policy_weighted ON public.pgqueue_policy USING btree (channel) WHERE (weight IS NOT NULL);
CREATE INDEX pgqueue_schedule_due ON public.pgqueue_schedule USING btree (next_at NULLS FIRST) WHERE (NOT paused);
CREATE INDEX pgqueue_schedule_name_2cb0390b_like ON public.pgqueue_schedule USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_waiter_message ON public.pgqueue_waiter USING btree (message_id);
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261124_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261124_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261124_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261125_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261125_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261125_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261126_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261126_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261126_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261127_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261127_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261127_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261128_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261128_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261128_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261129_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261129_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261129_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261130_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261130_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261130_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261201_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261201_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261201_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261202_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261202_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261202_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261203_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261203_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261203_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261204_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261204_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261204_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261205_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261205_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261205_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261206_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261206_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261206_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261207_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261207_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261207_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261208_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261208_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261208_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261209_finished_at_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261209_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261209_txid_id_idx;
CREATE TRIGGER pgqueue_channel_changed AFTER INSERT OR DELETE OR UPDATE ON public.pgqueue_channel FOR EACH ROW EXECUTE FUNCTION public.pgqueue_channel_changed_v1();
CREATE TRIGGER pgqueue_policy_changed AFTER INSERT OR DELETE OR UPDATE ON public.pgqueue_policy FOR EACH ROW EXECUTE FUNCTION public.pgqueue_policy_changed_v1();
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
