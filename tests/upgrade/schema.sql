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
CREATE FUNCTION public.pgqueue_acting_v1() RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN who = '{}' OR has_column_privilege(session_user, 'pgqueue_event_inbox'::regclass, 'metadata', 'INSERT') THEN who
                ELSE who || jsonb_build_object('session_user', session_user::text) END
    FROM (SELECT CASE WHEN said IS NULL OR said = '' THEN '{}'
                      WHEN said LIKE '{%' THEN said::jsonb
                      ELSE jsonb_build_object('user', said) END AS who
          FROM (SELECT current_setting('pgqueue.acting', true) OFFSET 0) AS setting (said) OFFSET 0) AS known
$$;
CREATE FUNCTION public.pgqueue_alternatives_v1(value jsonb, depth integer) RETURNS jsonb[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    kind text := jsonb_typeof(value);
    written jsonb;
BEGIN
    IF kind = 'string' THEN
        RETURN array_remove(ARRAY[value, to_jsonb(pgqueue_number_v1(value #>> '{}'))], NULL);
    ELSIF depth = 0 OR kind NOT IN ('array', 'object') THEN
        RETURN ARRAY[value];
    ELSIF kind = 'array' THEN
        SELECT coalesce(jsonb_agg(part ORDER BY number, place), '[]') INTO written
        FROM jsonb_array_elements(value) WITH ORDINALITY i (item, number)
        CROSS JOIN LATERAL unnest(CASE
            WHEN jsonb_typeof(item) IN ('array', 'object') THEN pgqueue_alternatives_v1(item, depth - 1)
            WHEN jsonb_typeof(item) = 'string'
            THEN array_remove(ARRAY[item, to_jsonb(pgqueue_number_v1(item #>> '{}'))], NULL)
            ELSE ARRAY[item] END) WITH ORDINALITY p (part, place);
        RETURN ARRAY[written];
    END IF;
    SELECT coalesce(jsonb_object_agg(name, pgqueue_member_v1(item, depth - 1)), '{}') INTO written
    FROM jsonb_each(value) m (name, item);
    IF value ?& '{@,value}' THEN
        RETURN written || pgqueue_alternatives_v1(value -> 'value', depth - 1);
    END IF;
    RETURN ARRAY[written];
END $$;
CREATE FUNCTION public.pgqueue_as_duration_v1(argument text, value interval) RETURNS interval
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF value NOT BETWEEN interval '-36525 days' AND interval '36525 days' THEN
        RAISE EXCEPTION '% must be a hundred years at most, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;
CREATE FUNCTION public.pgqueue_as_instant_v1(argument text, value timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF value NOT BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN
        RAISE EXCEPTION '% must be a finite time between the years 1 and 9999, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;
CREATE FUNCTION public.pgqueue_as_name_v1(argument text, value text, most integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    IF octet_length(value) > most THEN
        RAISE EXCEPTION '% may be % bytes long at most, and has %.', argument, most, octet_length(value)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;
CREATE FUNCTION public.pgqueue_begin_flow_v1(id bigint, name text, handler_id bigint, names jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        PERFORM pgqueue_produce_flow_v1($1, $2, $3, $4);
        RETURN;
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id, names) VALUES ($1, $2, $3, $4);
END $_$;
CREATE FUNCTION public.pgqueue_block_v1(flow_id bigint, children bigint[], watched bigint[], on_failures text[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN false;
    END IF;
    INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
    SELECT c.child, $1, c.watched, c.on_failure FROM unnest($2, $3, $4) AS c (child, watched, on_failure);
    RETURN true;
END $_$;
CREATE FUNCTION public.pgqueue_bucket_v1(channel text, key text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT (hashtextextended($1 || coalesce(chr(31) || $2, ''), 0) & 1023)::integer
$_$;
CREATE FUNCTION public.pgqueue_channel_changed_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO pgqueue_bell (channel) VALUES (coalesce(NEW.name, OLD.name));
    PERFORM pgqueue_tell_v1(coalesce(NEW.name, OLD.name));
    RETURN NULL;
END $$;
CREATE FUNCTION public.pgqueue_check_reserved_v1(kind text, ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_comparable_v1(payload jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT CASE
        WHEN jsonb_path_match(payload,
            'exists($.** ? (@ like_regex "^-?[0-9.]{15}|^-?[0-9.]+[eE]")) || exists($.**."@") && exists($.** ? (exists(@."@") && (@."value".type() == "object" || @."value".type() == "array")))',
            '{}', true)
        THEN pgqueue_member_v1(payload, 50) ELSE payload END
$_$;
CREATE FUNCTION public.pgqueue_diff_v1(old jsonb, new jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT coalesce(jsonb_object_agg(name, $2 -> name), '{}')
    FROM jsonb_object_keys(coalesce($1, '{}') || coalesce($2, '{}')) AS name
    WHERE $1 -> name IS DISTINCT FROM $2 -> name
$_$;
CREATE FUNCTION public.pgqueue_end_v1(ids bigint[], how text) RETURNS TABLE(id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_enqueue(task text, payload jsonb DEFAULT '{"args": [], "kwargs": {}}'::jsonb, channel text DEFAULT 'default'::text, key text DEFAULT ''::text, priority integer DEFAULT 0, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, run_after interval DEFAULT NULL::interval, expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_after interval DEFAULT NULL::interval, max_attempts integer DEFAULT 20, ordered boolean DEFAULT false, dedupe_key text DEFAULT NULL::text, dedupe_for interval DEFAULT NULL::interval, replaces boolean DEFAULT false, held_for interval DEFAULT NULL::interval, metadata jsonb DEFAULT '{}'::jsonb, body bytea DEFAULT NULL::bytea) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION public.pgqueue_enqueue_v1(channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb, priority smallint, max_attempts integer, run_at timestamp with time zone, run_after interval, expires_at timestamp with time zone, expires_after interval, held_for interval, ordered boolean, dedupe_key text, dedupe_for interval, replaces boolean, parent_id bigint, reserved bigint, flow_id bigint, waits boolean, OUT id bigint, OUT state text, OUT due_at timestamp with time zone, OUT created_at timestamp with time zone, OUT is_told boolean, OUT came_of text) RETURNS record
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
CREATE FUNCTION public.pgqueue_instant_of_v1(said text) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN said::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
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
CREATE FUNCTION public.pgqueue_is_own_v1(stored xid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    SELECT pg_xact_status((newest - ((newest - $1::text::bigint + 2147483648) & 4294967295) + 2147483648)::text::xid8) = 'in progress'
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS newest OFFSET 0) s
$_$;
CREATE FUNCTION public.pgqueue_keep_order_v1(channel text, key text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
    lock bigint := hashtextextended(
        'order' || chr(31) || pgqueue_bucket_v1($1, $2), 'pgqueue_message'::regclass::oid::bigint);
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock) THEN
        PERFORM pgqueue_wait_v1(lock, format('The lane %L of the channel %L', $2, $1));
    END IF;
END $_$;
CREATE FUNCTION public.pgqueue_member_v1(value jsonb, depth integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    alternatives jsonb[] := pgqueue_alternatives_v1(value, depth);
BEGIN
    IF cardinality(alternatives) = 1 THEN
        RETURN alternatives[1];
    END IF;
    RETURN (SELECT jsonb_agg(part)
            FROM unnest(alternatives) a (one)
            CROSS JOIN LATERAL jsonb_array_elements(
                CASE jsonb_typeof(one) WHEN 'array' THEN one ELSE jsonb_build_array(one) END) p (part));
END $$;
CREATE FUNCTION public.pgqueue_nested_keys_v1(topic text, since bigint, first bigint) RETURNS text[]
    LANGUAGE sql STABLE
    AS $_$
    SELECT array_agg(key)
    FROM (
        SELECT key FROM pgqueue_event_inbox e
        WHERE id >= $2 AND id < $3 AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
        INTERSECT
        SELECT key FROM pgqueue_event_inbox e
        WHERE id > $3 AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)) both_have
$_$;
CREATE FUNCTION public.pgqueue_nested_since_v1(depth integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $_$
    SELECT min(mark::bigint)
    FROM string_to_table(substring(current_setting('pgqueue.nested', true) FROM '^\d{1,18}(?: \d{1,18})*$'), ' ')
         WITH ORDINALITY AS each (mark, depth)
    WHERE each.depth > $1 AND mark::bigint > 0
$_$;
CREATE FUNCTION public.pgqueue_nested_v1(topic text, keys text[], since bigint, first bigint) RETURNS TABLE(key text, was jsonb, became jsonb)
    LANGUAGE sql STABLE
    AS $_$
    SELECT e.key, (array_agg(e.payload -> 'old' ORDER BY e.id))[1], (array_agg(e.payload -> 'new' ORDER BY e.id DESC))[1]
    FROM pgqueue_event_inbox e
    WHERE e.id >= $3 AND e.id < $4 AND e.key = ANY ($2) AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
    GROUP BY e.key
$_$;
CREATE FUNCTION public.pgqueue_note_nested_v1(depth integer, since bigint, first bigint) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
    marks text[] := string_to_array(
        substring(current_setting('pgqueue.nested', true) FROM '^\d{1,18}(?: \d{1,18})*$'), ' ');
BEGIN
    PERFORM set_config('pgqueue.nested', CASE WHEN $1 = 1 THEN '' ELSE (
        SELECT string_agg(CASE WHEN place < $1 THEN coalesce(marks[place], '0')
                               ELSE least(nullif(marks[place]::bigint, 0), $2, $3)::text END, ' ' ORDER BY place)
        FROM generate_series(1, $1) AS place) END, true);
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
CREATE FUNCTION public.pgqueue_number_v1(value text) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT CASE WHEN octet_length(value) <= 1000 AND value ~ '^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,4})?$'
                THEN value::numeric END
$_$;
CREATE FUNCTION public.pgqueue_operate_end_v1(ids bigint[], how text) RETURNS TABLE(id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
BEGIN
    IF $2 IS NULL OR $2 NOT IN ('cancelled', 'discarded') THEN
        RAISE EXCEPTION '% is no outcome that an operator decides.', quote_nullable($2)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_end_v1($1, $2) e;
END $_$;
CREATE FUNCTION public.pgqueue_partition_v1(key text, partitions integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (hashtextextended(key, 0) & 9223372036854775807) % partitions
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
CREATE FUNCTION public.pgqueue_primary_key_v1(tracked oid) RETURNS text[]
    LANGUAGE sql STABLE
    AS $_$
    SELECT array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = $1 AND i.indisprimary AND k.place <= i.indnkeyatts
$_$;
CREATE FUNCTION public.pgqueue_produce_event_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN pgqueue_publish_v1(topic, key, payload, pgqueue_said_v1(metadata));
END $$;
CREATE FUNCTION public.pgqueue_produce_flow_v1(id bigint, name text, handler_id bigint, names jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
DECLARE
    members bigint[] := array_remove(ARRAY(SELECT value::bigint FROM jsonb_each_text($4)) || $3, NULL);
BEGIN
    PERFORM pgqueue_check_reserved_v1('flow', ARRAY[$1]);
    IF members <> '{}' THEN
        PERFORM pgqueue_check_reserved_v1('message', members);
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id, names) VALUES ($1, $2, $3, $4);
END $_$;
CREATE FUNCTION public.pgqueue_produce_ids_v1(kind text, count integer) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_produce_now_v1(channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb, priority smallint, max_attempts integer, expires_at timestamp with time zone, expires_after interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN pgqueue_enqueue_now_v1(
        channel, key, task, payload, body, pgqueue_produced_v1(task, metadata), options, priority, max_attempts,
        expires_at, expires_after, NULL);
END $$;
CREATE FUNCTION public.pgqueue_produce_remembered_v1(ids text[], lasting interval) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY SELECT pgqueue_remember_v1($1, $2);
END $_$;
CREATE FUNCTION public.pgqueue_produce_v1(channel text, key text, task text, payload jsonb, body bytea, metadata jsonb, options jsonb, priority smallint, max_attempts integer, run_at timestamp with time zone, run_after interval, expires_at timestamp with time zone, expires_after interval, held_for interval, ordered boolean, dedupe_key text, dedupe_for interval, replaces boolean, reserved bigint, flow_id bigint, waits boolean, OUT id bigint, OUT state text, OUT due_at timestamp with time zone, OUT created_at timestamp with time zone, OUT is_told boolean, OUT came_of text) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.pgqueue_produce_waits_v1(flow_id bigint, children bigint[], on_failures text[], waiting bigint[], parents bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $_$
BEGIN
    PERFORM pgqueue_check_reserved_v1('flow', ARRAY[$1]), pgqueue_check_reserved_v1('message', $2 || $4 || $5);
    INSERT INTO pgqueue_dependency (flow_id, child_id, parent_id)
    SELECT $1, p.child, p.parent FROM unnest($4, $5) AS p (child, parent);
    INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
    SELECT c.child, $1, (SELECT min(p.parent) FROM unnest($4, $5) AS p (child, parent) WHERE p.child = c.child), c.on_failure
    FROM unnest($2, $3) AS c (child, on_failure);
END $_$;
CREATE FUNCTION public.pgqueue_produced_v1(task text, metadata jsonb) RETURNS jsonb
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF $1 NOT LIKE 'pgqueue.%' THEN
        RETURN pgqueue_said_v1($2);
    END IF;
    IF $1 NOT IN ('pgqueue.events.later.publish_now', 'pgqueue.compat.celery.linking.call_errback') THEN
        RAISE EXCEPTION 'The role % may not enqueue %: it is a task of pgqueue itself.', quote_ident(session_user), quote_literal($1)
            USING ERRCODE = 'insufficient_privilege', HINT = 'The functions of pgqueue store it, in the role of an operator or a worker.';
    END IF;
    RETURN pgqueue_said_v1($2) || jsonb_build_object('session_user', session_user::text);
END $_$;
CREATE FUNCTION public.pgqueue_publish(topic text, payload jsonb DEFAULT NULL::jsonb, key text DEFAULT ''::text, metadata jsonb DEFAULT '{}'::jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    -- White space is as Python has it, whatever the collation says. The pattern is in dollar quotes: a session whose
    -- standard_conforming_strings is off loses the backslashes of other strings.
    IF topic IS NULL OR octet_length(topic) > 200 OR topic !~
       $re$^[^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+([.][^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*$$re$
    THEN
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
END $_$;
CREATE FUNCTION public.pgqueue_publish_behind_v1(topic text, keys text[], since bigint, first bigint) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
    WITH moved AS (
        DELETE FROM pgqueue_event_inbox e
        WHERE id >= $3 AND id < $4 AND e.key = ANY ($2) AND starts_with(e.topic, $1 || '.') AND pgqueue_is_own_v1(e.xmin)
        RETURNING *)
    INSERT INTO pgqueue_event_inbox (topic, key, payload, metadata, created_at)
    SELECT moved.topic, key, payload, metadata, created_at FROM moved ORDER BY id;
END $_$;
CREATE FUNCTION public.pgqueue_publish_v1(topic text, key text, payload jsonb, metadata jsonb) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_remember_v1(ids text[], lasting interval) RETURNS SETOF text
    LANGUAGE plpgsql
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_reserve_flow_v1() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN (pgqueue_produce_ids_v1('flow', 1))[1];
    END IF;
    RETURN nextval('pgqueue_flow_id_seq');
END $$;
CREATE FUNCTION public.pgqueue_reserve_v1(count integer) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN pgqueue_produce_ids_v1('message', $1);
    END IF;
    RETURN ARRAY(SELECT nextval('pgqueue_message_id_seq') FROM generate_series(1, $1));
END $_$;
CREATE FUNCTION public.pgqueue_room_v1(channel text, key text) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $_$
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
END $_$;
CREATE FUNCTION public.pgqueue_row_as_json_v1(tracked oid) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT format('pgqueue_row_v1(%L::text[], ARRAY[%s]::jsonb[])',
                  array_agg(attname::text ORDER BY attnum),
                  string_agg(format('pgqueue_value_v1(r.%I)', attname), ', ' ORDER BY attnum))
    FROM pg_attribute
    WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated <> 'v'
$_$;
CREATE FUNCTION public.pgqueue_row_key_v1(tracked jsonb, columns text[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT CASE WHEN cardinality($2) = 1 THEN $1 ->> $2[1]
                ELSE (SELECT jsonb_agg($1 ->> name ORDER BY place)::text
                      FROM unnest($2) WITH ORDINALITY AS part (name, place)) END
$_$;
CREATE FUNCTION public.pgqueue_row_v1(columns text[], jsons jsonb[]) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT jsonb_object_agg(name, CASE WHEN total > 64000000 AND bytes > 64000000 / cardinality($1) THEN 'null'
                                       ELSE coalesce(value, 'null') END)
    FROM (
        SELECT name, value, octet_length(value::text) AS bytes, sum(octet_length(value::text)) OVER () AS total
        FROM unnest($1, $2) AS part (name, value)) each
$_$;
CREATE FUNCTION public.pgqueue_rows_now_v1(tracked oid, id text[]) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
    SELECT format('(SELECT t.* FROM %1$s t JOIN jsonb_populate_recordset(NULL::%1$s, (SELECT jsonb_agg(parts) FROM known)) k ON %2$s)',
                  $1::regclass, string_agg(format('t.%1$I = k.%1$I', name), ' AND '))
    FROM unnest($2) AS part (name)
$_$;
CREATE FUNCTION public.pgqueue_said_v1(metadata jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN NOT coalesce($1 ? 'acting', false) THEN $1
                ELSE jsonb_set($1, '{acting}',
                    CASE jsonb_typeof($1 -> 'acting')
                        WHEN 'object' THEN $1 -> 'acting'
                        WHEN 'null' THEN '{}'::jsonb
                        ELSE jsonb_build_object('user', $1 -> 'acting') END
                    || jsonb_build_object('session_user', session_user::text)) END
$_$;
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
    lease_for interval,
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
    flow_id bigint,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT pgqueue_message_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_message_names CHECK ((((octet_length(channel) >= 1) AND (octet_length(channel) <= 200)) AND (octet_length(key) <= 1000) AND (octet_length(task) <= 1000) AND COALESCE((octet_length(dedupe_key) <= 1000), true))),
    CONSTRAINT pgqueue_message_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((lease_for >= '-36525 days'::interval) AND (lease_for <= '36525 days'::interval)))),
    CONSTRAINT pgqueue_message_priority CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT pgqueue_message_state CHECK ((state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text, 'running'::text, 'dead'::text]))),
    CONSTRAINT pgqueue_message_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((lease_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
CREATE FUNCTION public.pgqueue_stores_events_v1() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT has_column_privilege('pgqueue_event_inbox'::regclass, 'metadata', 'INSERT')
$$;
CREATE FUNCTION public.pgqueue_stores_messages_v1() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT has_column_privilege('pgqueue_message'::regclass, 'id', 'INSERT')
$$;
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
CREATE FUNCTION public.pgqueue_tell_readers_v1() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_reader WHERE notify_until > clock_timestamp()) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(pgqueue_notifications_v1() || '_events', '');
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
CREATE TABLE public.pgqueue_event (
    "position" bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    payload jsonb,
    metadata jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_event_json CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pgqueue_event_numbers CHECK ((("position" >= 0) AND ("position" <= '4611686018427387904'::bigint))),
    CONSTRAINT pgqueue_event_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
PARTITION BY RANGE ("position");
CREATE FUNCTION public.pgqueue_trail_v1(part oid, topics text[], key text, most integer) RETURNS SETOF public.pgqueue_event
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_indexscan TO 'off'
    AS $_$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = $1) THEN
        RETURN;  -- retention has just removed it
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT position, topic, key, payload, metadata, created_at FROM %s
         WHERE key = $1 AND topic = ANY ($2) ORDER BY position DESC LIMIT $3', $1::regclass)
    USING $3, $2, $4;
END $_$;
CREATE FUNCTION public.pgqueue_value_v1(value anyelement) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $_$
BEGIN
    RETURN to_jsonb($1);
EXCEPTION WHEN OTHERS THEN
    BEGIN
        RETURN to_jsonb($1::text);
    EXCEPTION WHEN OTHERS THEN
        RETURN NULL;
    END;
END $_$;
CREATE FUNCTION public.pgqueue_wait_v1(lock bigint, what text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
CREATE TABLE public.pgqueue_backfill (
    name text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL,
    source text NOT NULL,
    attempts jsonb NOT NULL,
    place integer DEFAULT 0 NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    total bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT pgqueue_backfill_json CHECK ((jsonb_typeof(attempts) = 'array'::text)),
    CONSTRAINT pgqueue_backfill_numbers CHECK (((place >= 0) AND (number >= 0) AND (done >= 0) AND (total >= 0))),
    CONSTRAINT pgqueue_backfill_times CHECK ((((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((ended_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (ended_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
CREATE TABLE public.pgqueue_bell (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    ended bigint[],
    CONSTRAINT pgqueue_bell_arrays CHECK (
CASE
    WHEN (array_ndims(ended) > 1) THEN false
    ELSE (array_position(ended, NULL::bigint) IS NULL)
END),
    CONSTRAINT pgqueue_bell_names CHECK (((octet_length(channel) <= 200) AND COALESCE((octet_length(key) <= 1000), true))),
    CONSTRAINT pgqueue_bell_numbers CHECK ((id > 0))
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
CREATE TABLE public.pgqueue_blocked (
    message_id bigint NOT NULL,
    flow_id bigint NOT NULL,
    watched_id bigint NOT NULL,
    on_failure text NOT NULL,
    CONSTRAINT pgqueue_blocked_on_failure CHECK ((on_failure = ANY (ARRAY['wait'::text, 'cancel'::text, 'run'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
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
CREATE TABLE public.pgqueue_cursor (
    "group" text NOT NULL COLLATE pg_catalog."C",
    partition integer NOT NULL,
    "position" bigint NOT NULL,
    reader_id uuid,
    lease_until timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    retry_at timestamp with time zone,
    is_stopped boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    suspect bigint,
    lost integer DEFAULT 0 NOT NULL,
    begun_at timestamp with time zone,
    CONSTRAINT pgqueue_cursor_numbers CHECK (((partition >= 0) AND (("position" >= 0) AND ("position" <= '4611686018427387904'::bigint)) AND ((suspect >= 0) AND (suspect <= '4611686018427387904'::bigint)) AND ((lost >= 0) AND (lost <= 1000000000)) AND (failures >= 0))),
    CONSTRAINT pgqueue_cursor_times CHECK ((((lease_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (lease_until <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((retry_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (retry_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((updated_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (updated_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((begun_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (begun_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_dedupe (
    channel text NOT NULL COLLATE pg_catalog."C",
    dedupe_key text NOT NULL COLLATE pg_catalog."C",
    message_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_dedupe_times CHECK (((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE public.pgqueue_dependency (
    flow_id bigint NOT NULL,
    child_id bigint NOT NULL,
    parent_id bigint NOT NULL
);
CREATE TABLE public.pgqueue_duty (
    name text NOT NULL COLLATE pg_catalog."C",
    due_at timestamp with time zone NOT NULL,
    ran_at timestamp with time zone,
    upto timestamp with time zone,
    failing_since timestamp with time zone,
    CONSTRAINT pgqueue_duty_times CHECK ((((due_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (due_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((ran_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (ran_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((upto >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (upto <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((failing_since >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (failing_since <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_event_0 (
    "position" bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    payload jsonb,
    metadata jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_event_json CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pgqueue_event_numbers CHECK ((("position" >= 0) AND ("position" <= '4611686018427387904'::bigint))),
    CONSTRAINT pgqueue_event_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE public.pgqueue_event_1 (
    "position" bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    payload jsonb,
    metadata jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_event_json CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pgqueue_event_numbers CHECK ((("position" >= 0) AND ("position" <= '4611686018427387904'::bigint))),
    CONSTRAINT pgqueue_event_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE public.pgqueue_event_inbox (
    id bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    payload jsonb,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT pgqueue_event_inbox_json CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pgqueue_event_inbox_names CHECK (((octet_length(topic) <= 200) AND (octet_length(key) <= 1000))),
    CONSTRAINT pgqueue_event_inbox_numbers CHECK ((id > 0)),
    CONSTRAINT pgqueue_event_inbox_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT pgqueue_event_inbox_topic CHECK ((NOT (topic = ''::text)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', toast.autovacuum_vacuum_scale_factor='0', toast.autovacuum_vacuum_threshold='1000', toast.autovacuum_vacuum_insert_threshold='-1', toast.autovacuum_vacuum_cost_delay='0');
ALTER TABLE public.pgqueue_event_inbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_event_inbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_export (
    target text NOT NULL COLLATE pg_catalog."C",
    batch bigint NOT NULL,
    txid bigint NOT NULL,
    message_id bigint NOT NULL,
    event_batch bigint DEFAULT '-1'::integer NOT NULL,
    event_position bigint DEFAULT 0 NOT NULL,
    exported_at timestamp with time zone NOT NULL,
    database text DEFAULT ''::text NOT NULL,
    CONSTRAINT pgqueue_export_names CHECK ((octet_length(database) <= 100)),
    CONSTRAINT pgqueue_export_numbers CHECK ((((batch >= '-1'::integer) AND (batch <= '4611686018427387904'::bigint)) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)) AND ((message_id >= 0) AND (message_id <= '4611686018427387904'::bigint)) AND ((event_batch >= '-1'::integer) AND (event_batch <= '4611686018427387904'::bigint)) AND ((event_position >= 0) AND (event_position <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_export_times CHECK (((exported_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (exported_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
CREATE TABLE public.pgqueue_failed_member (
    message_id bigint NOT NULL,
    flow_id bigint NOT NULL
);
CREATE TABLE public.pgqueue_flow (
    id bigint NOT NULL,
    name text NOT NULL,
    handler_id bigint,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    names jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT pgqueue_flow_json CHECK ((jsonb_typeof(names) = 'object'::text)),
    CONSTRAINT pgqueue_flow_numbers CHECK (((id >= 1) AND (id <= '4611686018427387904'::bigint))),
    CONSTRAINT pgqueue_flow_times CHECK ((((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((ended_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (ended_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
ALTER TABLE public.pgqueue_flow ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_flow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_gate (
    channel text NOT NULL COLLATE pg_catalog."C",
    tat timestamp with time zone NOT NULL,
    wake_at timestamp with time zone,
    CONSTRAINT pgqueue_gate_times CHECK ((((tat >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (tat <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((wake_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (wake_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_group (
    name text NOT NULL COLLATE pg_catalog."C",
    partitions integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT pgqueue_group_partitions CHECK (((partitions >= 1) AND (partitions <= 1024))),
    CONSTRAINT pgqueue_group_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
PARTITION BY RANGE (finished_at);
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
CREATE TABLE public.pgqueue_history_20261210 (
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
CREATE TABLE public.pgqueue_history_20261211 (
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
    flow_id bigint,
    created_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    result jsonb,
    finished_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    txid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    CONSTRAINT pgqueue_history_json CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(errors) = 'array'::text))),
    CONSTRAINT pgqueue_history_numbers CHECK ((((id >= 1) AND (id <= '4611686018427387904'::bigint)) AND (attempt >= 0) AND (failures >= 0) AND (lost >= 0) AND (max_attempts >= 0) AND ((txid >= 0) AND (txid <= '4611686018427387904'::bigint)))),
    CONSTRAINT pgqueue_history_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'cancelled'::text, 'discarded'::text, 'expired'::text]))),
    CONSTRAINT pgqueue_history_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((claimed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (claimed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((cancel_requested_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (cancel_requested_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((finished_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (finished_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
CREATE TABLE public.pgqueue_identity (
    is_only boolean DEFAULT true NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT pgqueue_identity_is_only_check CHECK (is_only)
);
CREATE TABLE public.pgqueue_lane (
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    turn_at timestamp with time zone NOT NULL,
    tat timestamp with time zone NOT NULL,
    wake_at timestamp with time zone,
    CONSTRAINT pgqueue_lane_state CHECK ((state = ANY (ARRAY['idle'::text, 'runnable'::text, 'saturated'::text, 'throttled'::text]))),
    CONSTRAINT pgqueue_lane_times CHECK ((((turn_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (turn_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((tat >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (tat <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((wake_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (wake_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE public.pgqueue_lock (
    name text NOT NULL
);
CREATE TABLE public.pgqueue_log_floor (
    log text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    CONSTRAINT pgqueue_log_floor_numbers CHECK ((("position" >= 0) AND ("position" <= '4611686018427387904'::bigint)))
);
ALTER TABLE public.pgqueue_message ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_operation (
    message_id bigint NOT NULL,
    "user" jsonb,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT pgqueue_operation_numbers CHECK ((message_id > 0)),
    CONSTRAINT pgqueue_operation_times CHECK (((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
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
    until timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_purged_numbers CHECK (((keep >= '00:00:00'::interval) AND (keep <= '36525 days'::interval))),
    CONSTRAINT pgqueue_purged_times CHECK (((until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (until <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_reader (
    id uuid NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    "group" text COLLATE pg_catalog."C",
    last_seen timestamp with time zone NOT NULL,
    notify_until timestamp with time zone,
    feed_until timestamp with time zone,
    CONSTRAINT pgqueue_reader_times CHECK ((((last_seen >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (last_seen <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((notify_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (notify_until <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((feed_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (feed_until <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE UNLOGGED TABLE public.pgqueue_reserved (
    txid xid8 NOT NULL,
    kind text NOT NULL,
    ids int8multirange NOT NULL
);
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
    recent jsonb DEFAULT '[]'::jsonb NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    declared boolean DEFAULT false NOT NULL,
    definition text DEFAULT ''::text NOT NULL,
    superseded text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    seen_at timestamp with time zone,
    CONSTRAINT pgqueue_schedule_arrays CHECK (
CASE
    WHEN (array_ndims(superseded) > 1) THEN false
    ELSE (array_position(superseded, NULL::text) IS NULL)
END),
    CONSTRAINT pgqueue_schedule_every CHECK (((every >= '00:00:01'::interval) AND (every <= '366 days'::interval))),
    CONSTRAINT pgqueue_schedule_missed CHECK ((missed = ANY (ARRAY['skip'::text, 'once'::text, 'all'::text]))),
    CONSTRAINT pgqueue_schedule_names CHECK ((octet_length(name) >= 1)),
    CONSTRAINT pgqueue_schedule_numbers CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT pgqueue_schedule_overlap CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text, 'one'::text]))),
    CONSTRAINT pgqueue_schedule_times CHECK ((((next_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (next_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((ticked_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (ticked_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((seen_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (seen_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))),
    CONSTRAINT pgqueue_schedule_when CHECK ((((NOT (cron = ''::text)) AND (every IS NULL)) OR ((cron = ''::text) AND (every IS NOT NULL))))
);
CREATE TABLE public.pgqueue_staged (
    attempt bigint NOT NULL,
    number bigint NOT NULL,
    message_id bigint,
    channel text COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    task text,
    payload jsonb,
    body bytea,
    metadata jsonb,
    priority smallint,
    max_attempts integer,
    run_at timestamp with time zone,
    expires_at timestamp with time zone,
    ordered boolean,
    dedupe_key text COLLATE pg_catalog."C",
    topic text COLLATE pg_catalog."C",
    CONSTRAINT pgqueue_staged_json CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT pgqueue_staged_numbers CHECK ((((priority >= '-100'::integer) AND (priority <= 100)) AND (max_attempts >= 1))),
    CONSTRAINT pgqueue_staged_times CHECK ((((run_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (run_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
);
CREATE TABLE public.pgqueue_statistic (
    period text NOT NULL,
    at timestamp with time zone NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    dead bigint NOT NULL,
    deferred bigint NOT NULL,
    discarded bigint NOT NULL,
    cancelled bigint NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    released bigint DEFAULT 0 NOT NULL,
    waited double precision NOT NULL,
    ran double precision NOT NULL,
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL,
    CONSTRAINT pgqueue_statistic_arrays CHECK ((
CASE
    WHEN (array_ndims(waits) > 1) THEN false
    ELSE (array_position(waits, NULL::bigint) IS NULL)
END AND
CASE
    WHEN (array_ndims(runs) > 1) THEN false
    ELSE (array_position(runs, NULL::bigint) IS NULL)
END)),
    CONSTRAINT pgqueue_statistic_numbers CHECK ((((succeeded >= 0) AND (succeeded <= '1000000000000000'::bigint)) AND ((failed >= 0) AND (failed <= '1000000000000000'::bigint)) AND ((dead >= 0) AND (dead <= '1000000000000000'::bigint)) AND ((deferred >= 0) AND (deferred <= '1000000000000000'::bigint)) AND ((discarded >= 0) AND (discarded <= '1000000000000000'::bigint)) AND ((cancelled >= 0) AND (cancelled <= '1000000000000000'::bigint)) AND ((lost >= 0) AND (lost <= '1000000000000000'::bigint)) AND ((released >= 0) AND (released <= '1000000000000000'::bigint)) AND ((waited >= ('-1000000000000000000000'::numeric)::double precision) AND (waited <= ('1000000000000000000000'::numeric)::double precision)) AND ((ran >= ('-1000000000000000000000'::numeric)::double precision) AND (ran <= ('1000000000000000000000'::numeric)::double precision)) AND (array_lower(waits, 1) = 1) AND (cardinality(waits) = 24) AND (0 <= ALL (waits)) AND ('1000000000000000'::bigint >= ALL (waits)) AND (array_lower(runs, 1) = 1) AND (cardinality(runs) = 24) AND (0 <= ALL (runs)) AND ('1000000000000000'::bigint >= ALL (runs)))),
    CONSTRAINT pgqueue_statistic_times CHECK (((at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
WITH (fillfactor='70');
CREATE TABLE public.pgqueue_subscription (
    name text NOT NULL COLLATE pg_catalog."C",
    task text DEFAULT ''::text NOT NULL,
    topics text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    "where" jsonb DEFAULT '{}'::jsonb NOT NULL,
    predicate text DEFAULT ''::text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    channel text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    ordered boolean DEFAULT false NOT NULL,
    batch integer,
    split_by text DEFAULT ''::text NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 20 NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    expires_after interval,
    expires_at timestamp with time zone,
    "position" bigint NOT NULL,
    follows boolean DEFAULT false NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    declared boolean DEFAULT false NOT NULL,
    definition text DEFAULT ''::text NOT NULL,
    superseded text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    seen_at timestamp with time zone,
    exact text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    regex text DEFAULT ''::text NOT NULL,
    eq_path text DEFAULT ''::text NOT NULL,
    eq_value jsonb,
    path text DEFAULT ''::text NOT NULL,
    vars jsonb DEFAULT '{}'::jsonb NOT NULL,
    key_path text DEFAULT ''::text NOT NULL,
    split_path text DEFAULT ''::text NOT NULL,
    CONSTRAINT pgqueue_subscription_arrays CHECK ((
CASE
    WHEN (array_ndims(topics) > 1) THEN false
    ELSE (array_position(topics, NULL::text) IS NULL)
END AND
CASE
    WHEN (array_ndims(superseded) > 1) THEN false
    ELSE (array_position(superseded, NULL::text) IS NULL)
END AND
CASE
    WHEN (array_ndims(exact) > 1) THEN false
    ELSE (array_position(exact, NULL::text) IS NULL)
END)),
    CONSTRAINT pgqueue_subscription_attempts CHECK ((max_attempts >= 1)),
    CONSTRAINT pgqueue_subscription_batch CHECK (((batch >= 1) AND (batch <= 10000))),
    CONSTRAINT pgqueue_subscription_json CHECK (((jsonb_typeof("where") = 'object'::text) AND (jsonb_typeof(metadata) = 'object'::text) AND (jsonb_typeof(vars) = 'object'::text))),
    CONSTRAINT pgqueue_subscription_names CHECK (((NOT (name = ''::text)) AND (NOT (channel = ''::text)))),
    CONSTRAINT pgqueue_subscription_numbers CHECK (((("position" >= 0) AND ("position" <= '4611686018427387904'::bigint)) AND ((expires_after >= '00:00:00'::interval) AND (expires_after <= '36525 days'::interval)))),
    CONSTRAINT pgqueue_subscription_priority CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT pgqueue_subscription_times CHECK ((((expires_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((created_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((seen_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (seen_at <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='70', autovacuum_vacuum_threshold='200', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_tally (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    dead bigint NOT NULL,
    deferred bigint NOT NULL,
    discarded bigint NOT NULL,
    cancelled bigint NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    released bigint DEFAULT 0 NOT NULL,
    waited double precision NOT NULL,
    ran double precision NOT NULL,
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL,
    CONSTRAINT pgqueue_tally_arrays CHECK ((
CASE
    WHEN (array_ndims(waits) > 1) THEN false
    ELSE (array_position(waits, NULL::bigint) IS NULL)
END AND
CASE
    WHEN (array_ndims(runs) > 1) THEN false
    ELSE (array_position(runs, NULL::bigint) IS NULL)
END)),
    CONSTRAINT pgqueue_tally_numbers CHECK ((((succeeded >= 0) AND (succeeded <= '1000000000000'::bigint)) AND ((failed >= 0) AND (failed <= '1000000000000'::bigint)) AND ((dead >= 0) AND (dead <= '1000000000000'::bigint)) AND ((deferred >= 0) AND (deferred <= '1000000000000'::bigint)) AND ((discarded >= 0) AND (discarded <= '1000000000000'::bigint)) AND ((cancelled >= 0) AND (cancelled <= '1000000000000'::bigint)) AND ((lost >= 0) AND (lost <= '1000000000000'::bigint)) AND ((released >= 0) AND (released <= '1000000000000'::bigint)) AND ((waited >= ('-1000000000000000000'::numeric)::double precision) AND (waited <= ('1000000000000000000'::numeric)::double precision)) AND ((ran >= ('-1000000000000000000'::numeric)::double precision) AND (ran <= ('1000000000000000000'::numeric)::double precision)) AND (array_lower(waits, 1) = 1) AND (cardinality(waits) = 24) AND (0 <= ALL (waits)) AND ('1000000000000'::bigint >= ALL (waits)) AND (array_lower(runs, 1) = 1) AND (cardinality(runs) = 24) AND (0 <= ALL (runs)) AND ('1000000000000'::bigint >= ALL (runs)))),
    CONSTRAINT pgqueue_tally_times CHECK (((at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1');
CREATE TABLE public.pgqueue_tally_batch (
    source uuid NOT NULL,
    number bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_tally_batch_numbers CHECK (((number >= 0) AND (number <= '4611686018427387904'::bigint))),
    CONSTRAINT pgqueue_tally_batch_times CHECK (((at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
ALTER TABLE public.pgqueue_tally ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pgqueue_tally_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pgqueue_total (
    channel text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    counted_at timestamp with time zone NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    dead bigint NOT NULL,
    deferred bigint NOT NULL,
    discarded bigint NOT NULL,
    cancelled bigint NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    released bigint DEFAULT 0 NOT NULL,
    waited double precision NOT NULL,
    ran double precision NOT NULL,
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL,
    CONSTRAINT pgqueue_total_arrays CHECK ((
CASE
    WHEN (array_ndims(waits) > 1) THEN false
    ELSE (array_position(waits, NULL::bigint) IS NULL)
END AND
CASE
    WHEN (array_ndims(runs) > 1) THEN false
    ELSE (array_position(runs, NULL::bigint) IS NULL)
END)),
    CONSTRAINT pgqueue_total_numbers CHECK ((((succeeded >= 0) AND (succeeded <= '1000000000000000000'::bigint)) AND ((failed >= 0) AND (failed <= '1000000000000000000'::bigint)) AND ((dead >= 0) AND (dead <= '1000000000000000000'::bigint)) AND ((deferred >= 0) AND (deferred <= '1000000000000000000'::bigint)) AND ((discarded >= 0) AND (discarded <= '1000000000000000000'::bigint)) AND ((cancelled >= 0) AND (cancelled <= '1000000000000000000'::bigint)) AND ((lost >= 0) AND (lost <= '1000000000000000000'::bigint)) AND ((released >= 0) AND (released <= '1000000000000000000'::bigint)) AND ((waited >= ('-1000000000000000000000000'::numeric)::double precision) AND (waited <= ('1000000000000000000000000'::numeric)::double precision)) AND ((ran >= ('-1000000000000000000000000'::numeric)::double precision) AND (ran <= ('1000000000000000000000000'::numeric)::double precision)) AND (array_lower(waits, 1) = 1) AND (cardinality(waits) = 24) AND (0 <= ALL (waits)) AND ('1000000000000000000'::bigint >= ALL (waits)) AND (array_lower(runs, 1) = 1) AND (cardinality(runs) = 24) AND (0 <= ALL (runs)) AND ('1000000000000000000'::bigint >= ALL (runs)))),
    CONSTRAINT pgqueue_total_times CHECK (((counted_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (counted_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE public.pgqueue_waiter (
    id bigint NOT NULL,
    message_id bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_waiter_numbers CHECK ((id > 0)),
    CONSTRAINT pgqueue_waiter_times CHECK (((until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (until <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
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
CREATE TABLE public.pgqueue_webhook (
    subscription_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL,
    secret text NOT NULL,
    rotated jsonb DEFAULT '[]'::jsonb NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    cloudevents boolean DEFAULT false NOT NULL,
    gzip boolean DEFAULT true NOT NULL,
    serializer text DEFAULT ''::text NOT NULL,
    timeout interval,
    backoff jsonb,
    salt uuid NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    CONSTRAINT pgqueue_webhook_json CHECK (((jsonb_typeof(rotated) = 'array'::text) AND (jsonb_typeof(headers) = 'object'::text))),
    CONSTRAINT pgqueue_webhook_numbers CHECK (((failures >= 0) AND ((timeout >= '00:00:00'::interval) AND (timeout <= '36525 days'::interval)))),
    CONSTRAINT pgqueue_webhook_texts CHECK (((NOT (url = ''::text)) AND (NOT (secret = ''::text)))),
    CONSTRAINT pgqueue_webhook_times CHECK (((failing_since >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (failing_since <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
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
    info jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT pgqueue_worker_arrays CHECK ((
CASE
    WHEN (array_ndims(channels) > 1) THEN false
    ELSE (array_position(channels, NULL::text) IS NULL)
END AND
CASE
    WHEN (array_ndims(excluded) > 1) THEN false
    ELSE (array_position(excluded, NULL::text) IS NULL)
END)),
    CONSTRAINT pgqueue_worker_json CHECK ((jsonb_typeof(info) = 'object'::text)),
    CONSTRAINT pgqueue_worker_times CHECK ((((started_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (started_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((last_seen >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (last_seen <= '9999-12-29 00:00:00+00'::timestamp with time zone)) AND ((notify_until >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (notify_until <= '9999-12-29 00:00:00+00'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='50', autovacuum_vacuum_scale_factor='0');
CREATE TABLE public.pgqueue_write (
    app_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    origin text NOT NULL,
    rows bigint NOT NULL,
    committed_at timestamp with time zone NOT NULL,
    CONSTRAINT pgqueue_write_numbers CHECK ((rows >= 0)),
    CONSTRAINT pgqueue_write_times CHECK (((committed_at >= '0001-01-03 00:00:00+00'::timestamp with time zone) AND (committed_at <= '9999-12-29 00:00:00+00'::timestamp with time zone)))
);
ALTER TABLE ONLY public.pgqueue_event ATTACH PARTITION public.pgqueue_event_0 FOR VALUES FROM ('0') TO ('1000000');
ALTER TABLE ONLY public.pgqueue_event ATTACH PARTITION public.pgqueue_event_1 FOR VALUES FROM ('1000000') TO ('2000000');
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
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261210 FOR VALUES FROM ('2026-12-10 00:00:00+00') TO ('2026-12-11 00:00:00+00');
ALTER TABLE ONLY public.pgqueue_history ATTACH PARTITION public.pgqueue_history_20261211 FOR VALUES FROM ('2026-12-11 00:00:00+00') TO ('2026-12-12 00:00:00+00');
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
INSERT INTO public.auth_permission VALUES (35, 'Can view flow', 15, 'view_flow');
INSERT INTO public.auth_permission VALUES (36, 'Can add worker', 20, 'add_worker');
INSERT INTO public.auth_permission VALUES (37, 'Can change worker', 20, 'change_worker');
INSERT INTO public.auth_permission VALUES (38, 'Can delete worker', 20, 'delete_worker');
INSERT INTO public.auth_permission VALUES (39, 'Can view worker', 20, 'view_worker');
INSERT INTO public.auth_permission VALUES (40, 'Can view overview', 21, 'view_overview');
INSERT INTO public.auth_permission VALUES (41, 'Can add schedule', 23, 'add_schedule');
INSERT INTO public.auth_permission VALUES (42, 'Can change schedule', 23, 'change_schedule');
INSERT INTO public.auth_permission VALUES (43, 'Can delete schedule', 23, 'delete_schedule');
INSERT INTO public.auth_permission VALUES (44, 'Can view schedule', 23, 'view_schedule');
INSERT INTO public.auth_permission VALUES (45, 'Can add event', 26, 'add_event');
INSERT INTO public.auth_permission VALUES (46, 'Can change event', 26, 'change_event');
INSERT INTO public.auth_permission VALUES (47, 'Can delete event', 26, 'delete_event');
INSERT INTO public.auth_permission VALUES (48, 'Can view event', 26, 'view_event');
INSERT INTO public.auth_permission VALUES (49, 'Can add group', 28, 'add_group');
INSERT INTO public.auth_permission VALUES (50, 'Can change group', 28, 'change_group');
INSERT INTO public.auth_permission VALUES (51, 'Can delete group', 28, 'delete_group');
INSERT INTO public.auth_permission VALUES (52, 'Can view group', 28, 'view_group');
INSERT INTO public.auth_permission VALUES (53, 'Can add subscription', 30, 'add_subscription');
INSERT INTO public.auth_permission VALUES (54, 'Can change subscription', 30, 'change_subscription');
INSERT INTO public.auth_permission VALUES (55, 'Can delete subscription', 30, 'delete_subscription');
INSERT INTO public.auth_permission VALUES (56, 'Can view subscription', 30, 'view_subscription');
INSERT INTO public.auth_permission VALUES (57, 'Can add webhook', 31, 'add_webhook');
INSERT INTO public.auth_permission VALUES (58, 'Can change webhook', 31, 'change_webhook');
INSERT INTO public.auth_permission VALUES (59, 'Can delete webhook', 31, 'delete_webhook');
INSERT INTO public.auth_permission VALUES (60, 'Can view webhook', 31, 'view_webhook');
INSERT INTO public.auth_permission VALUES (61, 'Can rotate, resume and test webhooks', 31, 'operate_webhook');
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
INSERT INTO public.django_content_type VALUES (11, 'pgqueue', 'logfloor');
INSERT INTO public.django_content_type VALUES (12, 'pgqueue', 'lane');
INSERT INTO public.django_content_type VALUES (13, 'pgqueue', 'gate');
INSERT INTO public.django_content_type VALUES (14, 'pgqueue', 'bell');
INSERT INTO public.django_content_type VALUES (15, 'pgqueue', 'flow');
INSERT INTO public.django_content_type VALUES (16, 'pgqueue', 'dependency');
INSERT INTO public.django_content_type VALUES (17, 'pgqueue', 'blocked');
INSERT INTO public.django_content_type VALUES (18, 'pgqueue', 'failedmember');
INSERT INTO public.django_content_type VALUES (19, 'pgqueue', 'waiter');
INSERT INTO public.django_content_type VALUES (20, 'pgqueue', 'worker');
INSERT INTO public.django_content_type VALUES (21, 'pgqueue', 'overview');
INSERT INTO public.django_content_type VALUES (22, 'pgqueue', 'duty');
INSERT INTO public.django_content_type VALUES (23, 'pgqueue', 'schedule');
INSERT INTO public.django_content_type VALUES (24, 'pgqueue', 'operation');
INSERT INTO public.django_content_type VALUES (25, 'pgqueue', 'eventinbox');
INSERT INTO public.django_content_type VALUES (26, 'pgqueue', 'event');
INSERT INTO public.django_content_type VALUES (27, 'pgqueue', 'reader');
INSERT INTO public.django_content_type VALUES (28, 'pgqueue', 'group');
INSERT INTO public.django_content_type VALUES (29, 'pgqueue', 'cursor');
INSERT INTO public.django_content_type VALUES (30, 'pgqueue', 'subscription');
INSERT INTO public.django_content_type VALUES (31, 'pgqueue', 'webhook');
INSERT INTO public.django_content_type VALUES (32, 'pgqueue', 'tally');
INSERT INTO public.django_content_type VALUES (33, 'pgqueue', 'tallybatch');
INSERT INTO public.django_content_type VALUES (34, 'pgqueue', 'statistic');
INSERT INTO public.django_content_type VALUES (35, 'pgqueue', 'total');
INSERT INTO public.django_content_type VALUES (36, 'pgqueue', 'export');
INSERT INTO public.django_content_type VALUES (37, 'pgqueue', 'write');
INSERT INTO public.django_content_type VALUES (38, 'pgqueue', 'staged');
INSERT INTO public.django_content_type VALUES (39, 'pgqueue', 'backfill');
INSERT INTO public.django_migrations VALUES (1, 'contenttypes', '0001_initial', '2026-11-27 18:08:23.830281+00');
INSERT INTO public.django_migrations VALUES (2, 'contenttypes', '0002_remove_content_type_name', '2026-11-27 18:08:23.839078+00');
INSERT INTO public.django_migrations VALUES (3, 'auth', '0001_initial', '2026-11-27 18:08:23.953913+00');
INSERT INTO public.django_migrations VALUES (4, 'auth', '0002_alter_permission_name_max_length', '2026-11-27 18:08:23.960973+00');
INSERT INTO public.django_migrations VALUES (5, 'auth', '0003_alter_user_email_max_length', '2026-11-27 18:08:23.970202+00');
INSERT INTO public.django_migrations VALUES (6, 'auth', '0004_alter_user_username_opts', '2026-11-27 18:08:23.976567+00');
INSERT INTO public.django_migrations VALUES (7, 'auth', '0005_alter_user_last_login_null', '2026-11-27 18:08:23.985363+00');
INSERT INTO public.django_migrations VALUES (8, 'auth', '0006_require_contenttypes_0002', '2026-11-27 18:08:23.989793+00');
INSERT INTO public.django_migrations VALUES (9, 'auth', '0007_alter_validators_add_error_messages', '2026-11-27 18:08:23.994867+00');
INSERT INTO public.django_migrations VALUES (10, 'auth', '0008_alter_user_username_max_length', '2026-11-27 18:08:24.01388+00');
INSERT INTO public.django_migrations VALUES (11, 'auth', '0009_alter_user_last_name_max_length', '2026-11-27 18:08:24.022901+00');
INSERT INTO public.django_migrations VALUES (12, 'auth', '0010_alter_group_name_max_length', '2026-11-27 18:08:24.030014+00');
INSERT INTO public.django_migrations VALUES (13, 'auth', '0011_update_proxy_permissions', '2026-11-27 18:08:24.033379+00');
INSERT INTO public.django_migrations VALUES (14, 'auth', '0012_alter_user_first_name_max_length', '2026-11-27 18:08:24.044185+00');
INSERT INTO public.django_migrations VALUES (15, 'pgqueue', '0001_initial', '2026-11-27 18:08:24.789665+00');
INSERT INTO public.django_migrations VALUES (16, 'pgqueue', '0002_storage', '2026-11-27 18:08:24.794936+00');
INSERT INTO public.django_migrations VALUES (17, 'pgqueue', '0003_functions', '2026-11-27 18:08:24.809418+00');
INSERT INTO public.django_migrations VALUES (18, 'pgqueue', '0004_events', '2026-11-27 18:08:24.957995+00');
INSERT INTO public.django_migrations VALUES (19, 'pgqueue', '0005_tracking', '2026-11-27 18:08:24.963872+00');
INSERT INTO public.django_migrations VALUES (20, 'pgqueue', '0006_statistics', '2026-11-27 18:08:24.998167+00');
INSERT INTO public.django_migrations VALUES (21, 'pgqueue', '0007_pipeline', '2026-11-27 18:08:25.071308+00');
INSERT INTO public.django_migrations VALUES (22, 'pgqueue', '0008_roles', '2026-11-27 18:08:25.089426+00');
INSERT INTO public.pgqueue_bell VALUES (4, 'mail', 'ada', NULL);
INSERT INTO public.pgqueue_bell VALUES (5, 'mail', 'ada', NULL);
INSERT INTO public.pgqueue_blocked VALUES (18, 1, 17, 'wait');
INSERT INTO public.pgqueue_channel VALUES ('mail', false, '3650 days', NULL, NULL, NULL, NULL, '3650 days', 'block', 'refuse', '', false);
INSERT INTO public.pgqueue_cursor VALUES ('', 0, 0, NULL, NULL, 0, '', NULL, false, '2026-11-27 18:08:27.405515+00', NULL, 0, NULL);
INSERT INTO public.pgqueue_dependency VALUES (1, 18, 17);
INSERT INTO public.pgqueue_duty VALUES ('rescue', '2026-11-27 18:08:27.382556+00', NULL, NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('schedule', '2026-11-27 18:08:28.400202+00', '2026-11-27 18:08:27.400202+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('sequence', '2026-11-27 18:08:28.403783+00', '2026-11-27 18:08:27.403784+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('dispatch', '2026-11-27 18:08:28.419762+00', '2026-11-27 18:08:27.419762+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('expire', '2026-11-27 18:08:28.438658+00', '2026-11-27 18:08:27.438659+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('lanes', '2026-11-27 18:08:32.45112+00', '2026-11-27 18:08:27.45112+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('flows', '2026-11-27 18:08:32.46224+00', '2026-11-27 18:08:27.46224+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('retention', '2026-11-27 19:08:27.470536+00', '2026-11-27 18:08:27.470537+00', '2026-11-27 18:08:27.463102+00', NULL);
INSERT INTO public.pgqueue_duty VALUES ('purge', '2026-11-27 18:09:27.517819+00', '2026-11-27 18:08:27.517819+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('partitions', '2026-11-27 19:08:27.531931+00', '2026-11-27 18:08:27.531931+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('statistics', '2026-11-27 18:08:37.533362+00', '2026-11-27 18:08:27.533362+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('forget', '2026-11-27 19:08:27.542877+00', '2026-11-27 18:08:27.542877+00', NULL, NULL);
INSERT INTO public.pgqueue_duty VALUES ('promote', '2026-11-27 18:08:30.020356+00', '2026-11-27 18:08:29.020356+00', NULL, NULL);
INSERT INTO public.pgqueue_event_inbox VALUES (1, 'order.paid', 'ada', '{"total": 5}', '{}', '2026-11-27 18:08:29.40155+00');
INSERT INTO public.pgqueue_event_inbox VALUES (2, 'order.paid', 'ada', '{"total": 50}', '{}', '2026-11-27 18:08:29.416375+00');
INSERT INTO public.pgqueue_flow VALUES (1, 'sum', NULL, '2026-11-27 18:08:29.400389+00', NULL, '{}');
INSERT INTO public.pgqueue_history_20261127 VALUES (4, 'default', '', 'tests.upgrade.tasks.add', '{"args": [5, 6], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-27 19:08:25.609583+00', NULL, NULL, 0, 0, 0, 5, false, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:25.609583+00', 'cancelled', NULL, '2026-11-27 18:08:25.686237+00', 768);
INSERT INTO public.pgqueue_history_20261127 VALUES (1, 'default', '', 'tests.upgrade.tasks.add', '{"args": [1, 2], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-27 18:08:25.210642+00', NULL, 'b64415c6-acf5-4f47-a4fd-38dd00000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-27 18:08:27.411566+00', '2026-11-27 18:08:27.421554+00', NULL, NULL, NULL, '2026-11-27 18:08:25.210642+00', 'succeeded', '3', '2026-11-27 18:08:27.42205+00', 785);
INSERT INTO public.pgqueue_history_20261127 VALUES (5, 'default', '', 'tests.upgrade.tasks.add', '{"args": [5, 6], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-27 19:08:25.698218+00', '2026-11-27 18:08:25.708218+00', NULL, 0, 0, 0, 5, false, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:25.698218+00', 'expired', NULL, '2026-11-27 18:08:27.43448+00', 783);
INSERT INTO public.pgqueue_history_20261127 VALUES (2, 'default', '', 'tests.upgrade.tasks.add', '{"args": [3, 4], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-27 18:08:25.210642+00', NULL, 'b64415c6-acf5-4f47-a4fd-38dd00000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-27 18:08:27.451432+00', '2026-11-27 18:08:27.45556+00', NULL, NULL, NULL, '2026-11-27 18:08:25.210642+00', 'succeeded', '7', '2026-11-27 18:08:27.455746+00', 796);
INSERT INTO public.pgqueue_history_20261127 VALUES (3, 'default', '', 'tests.upgrade.tasks.typed', '{"args": ["2026-01-02", "9.90"], "kwargs": {}}', NULL, '{}', NULL, 0, '2026-11-27 18:08:25.217239+00', NULL, 'b64415c6-acf5-4f47-a4fd-38dd00000001', 1, 0, 0, 5, false, NULL, NULL, '[]', '2026-11-27 18:08:27.458272+00', '2026-11-27 18:08:27.483484+00', NULL, NULL, NULL, '2026-11-27 18:08:25.217239+00', 'succeeded', '[{"@": "date", "value": "2026-01-02"}, {"@": "Decimal", "value": "9.90"}]', '2026-11-27 18:08:27.503186+00', 806);
INSERT INTO public.pgqueue_identity VALUES (true, '4db4073a-05ea-4e29-aac6-c3cfd46798f4');
INSERT INTO public.pgqueue_lane VALUES ('mail', '', 'idle', '2026-11-27 18:08:27.472287+00', '1970-01-01 00:00:00+00', NULL);
INSERT INTO public.pgqueue_lock VALUES ('route');
INSERT INTO public.pgqueue_lock VALUES ('sequence');
INSERT INTO public.pgqueue_message VALUES (6, 'mail', '', 'tests.upgrade.tasks.fail', '{"args": ["failing"], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'dead', '2026-11-27 18:08:25.766225+00', NULL, NULL, '00:00:01', NULL, 1, 1, 0, 1, false, false, NULL, false, NULL, '[{"at": "2026-11-27T18:08:27.439692+00:00", "class": "builtins.ValueError", "worker": "b64415c6-acf5-4f47-a4fd-38dd00000001", "attempt": 1, "message": "It fails in the first version.", "traceback": "Traceback (most recent call last):\n  File \"/tmp/tmpl5zt3wzu/tests/upgrade/tasks.py\", line 28, in fail\n    raise ValueError(\"It fails in the first version.\")\nValueError: It fails in the first version.\n"}]', '2026-11-27 18:08:27.427159+00', '2026-11-27 18:08:27.438692+00', NULL, NULL, NULL, '2026-11-27 18:08:25.766225+00');
INSERT INTO public.pgqueue_message VALUES (7, 'default', '', 'tests.upgrade.tasks.fail_once', '{"args": ["failing"], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'scheduled', '2026-11-27 19:08:27.521336+00', NULL, NULL, '00:00:01', NULL, 1, 1, 0, 5, false, false, NULL, false, NULL, '[{"at": "2026-11-27T18:08:27.521336+00:00", "class": "builtins.ValueError", "worker": "b64415c6-acf5-4f47-a4fd-38dd00000001", "attempt": 1, "message": "It fails in the first version.", "traceback": "Traceback (most recent call last):\n  File \"/tmp/tmpl5zt3wzu/tests/upgrade/tasks.py\", line 34, in fail_once\n    return str(fail.func(while_there_is))\n               ^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/tmp/tmpl5zt3wzu/tests/upgrade/tasks.py\", line 28, in fail\n    raise ValueError(\"It fails in the first version.\")\nValueError: It fails in the first version.\n"}]', '2026-11-27 18:08:27.486293+00', '2026-11-27 18:08:27.518261+00', NULL, NULL, NULL, '2026-11-27 18:08:25.899864+00');
INSERT INTO public.pgqueue_message VALUES (8, 'default', '', 'tests.upgrade.tasks.die', '{"args": [], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'running', '2026-11-27 18:08:27.60798+00', NULL, '2026-11-27 18:08:30.016424+00', '00:00:01', 'ad96cb78-28de-4bfa-a8c5-beed00000001', 1, 0, 0, 5, false, false, NULL, false, NULL, '[]', '2026-11-27 18:08:29.016424+00', NULL, NULL, NULL, NULL, '2026-11-27 18:08:27.60798+00');
INSERT INTO public.pgqueue_message VALUES (9, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [7, 8], "kwargs": {}}', NULL, '{}', NULL, 10, DEFAULT, 'ready', '2026-11-27 18:08:29.037554+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.037554+00');
INSERT INTO public.pgqueue_message VALUES (10, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [9, 10], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.159845+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, true, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.159845+00');
INSERT INTO public.pgqueue_message VALUES (11, 'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [11, 12], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.159845+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, true, true, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.159845+00');
INSERT INTO public.pgqueue_message VALUES (12, 'default', '', 'tests.upgrade.tasks.add', '{"args": [13, 14], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'scheduled', '2026-11-27 18:09:29.16592+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.16592+00');
INSERT INTO public.pgqueue_message VALUES (13, 'default', '', 'tests.upgrade.tasks.add', '{"args": [15, 16], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.206294+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, 'once', false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.206294+00');
INSERT INTO public.pgqueue_message VALUES (14, 'default', '', 'tests.upgrade.tasks.add', '{"args": [17, 18], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'held', '2026-11-27 18:08:29.233499+00', NULL, '2036-11-24 18:08:29.233499+00', NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.233499+00');
INSERT INTO public.pgqueue_message VALUES (15, 'default', '', 'tests.upgrade.tasks.typed', '{"args": ["2026-01-02", "9.90", {"@": "set", "value": [1, 2]}, {"@": "bytes", "value": "eA=="}], "kwargs": {}}', NULL, '{"trace": "abc"}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.242478+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.242478+00');
INSERT INTO public.pgqueue_message VALUES (16, 'raw', 'k', '', '{"to": "ada"}', '\x0001', '{}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.307183+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, NULL, '2026-11-27 18:08:29.307183+00');
INSERT INTO public.pgqueue_message VALUES (17, 'default', '', 'tests.upgrade.tasks.add', '{"args": [50, 50], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'ready', '2026-11-27 18:08:29.371547+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, 1, '2026-11-27 18:08:29.371547+00');
INSERT INTO public.pgqueue_message VALUES (18, 'default', '', 'tests.upgrade.tasks.add', '{"args": [{"@": "result", "value": 17}, 5], "kwargs": {}}', NULL, '{}', NULL, 0, DEFAULT, 'held', '2026-11-27 18:08:29.398307+00', NULL, NULL, NULL, NULL, 0, 0, 0, 5, false, false, NULL, false, NULL, '[]', NULL, NULL, NULL, NULL, 1, '2026-11-27 18:08:29.398307+00');
INSERT INTO public.pgqueue_policy VALUES (1, 'mail', 'each', '', 2, 100, '00:00:01', NULL, NULL, NULL, DEFAULT);
INSERT INTO public.pgqueue_purged VALUES ('30 days', '1105e868e4a89ece340f136d587fe6bc', '2026-10-28 18:08:27.492115+00');
INSERT INTO public.pgqueue_reader VALUES ('fc4bc383-81fc-4f9d-b255-38dd6aa6b8b4', 'vm', 17271, NULL, '2026-11-27 18:08:29.024677+00', '2026-11-27 18:08:29.691343+00', NULL);
INSERT INTO public.pgqueue_schedule VALUES ('daily', 'tests.upgrade.tasks.add', '@daily', NULL, 'UTC', '[1, 1]', '{}', '', NULL, 'once', 'allow', true, NULL, NULL, NULL, '[]', '', false, '', '{}', NULL);
INSERT INTO public.pgqueue_subscription VALUES ('orders', '', '{order.*}', '{"total__gte": 10}', '', '{}', 'orders', '', false, NULL, '', 0, 5, '{}', false, NULL, NULL, 0, true, '', '2026-11-27 18:08:25.205517+00', false, '', '{}', NULL, '{}', '^order\.[^.]+$', '', NULL, '($."total" >= $v0 || $."total" ? (@ like_regex "^-?[0-9]+([.][0-9]+)?$" && @ like_regex "^.{1,15}$").double() >= $v0 || exists($."total"."@") && ($."total" ? (exists(@."@"))."value" >= $v0 || $."total" ? (exists(@."@"))."value" ? (@ like_regex "^-?[0-9]+([.][0-9]+)?$" && @ like_regex "^.{1,15}$").double() >= $v0))', '{"v0": 10}', '', '');
INSERT INTO public.pgqueue_tally VALUES (1, '2026-11-27 18:08:27.574654+00', 'default', 'tests.upgrade.tasks.add', 2, 0, 0, 0, 0, 0, 0, 0, 4.455831293000027, 0.0006815039998855354, '{0,0,0,0,0,0,0,0,0,0,0,0,2,0,0,0,0,0,0,0,0,0,0,0}', '{2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}');
INSERT INTO public.pgqueue_tally VALUES (2, '2026-11-27 18:08:27.574654+00', 'mail', 'tests.upgrade.tasks.fail', 0, 0, 1, 0, 0, 0, 0, 0, 1.6724673559999725, 0.00196479500004898, '{0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0}', '{0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}');
INSERT INTO public.pgqueue_tally VALUES (3, '2026-11-27 18:08:27.574654+00', 'default', 'tests.upgrade.tasks.typed', 1, 0, 0, 0, 0, 0, 0, 0, 2.266245151000005, 0.020316730000104144, '{0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0}', '{0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}');
INSERT INTO public.pgqueue_tally VALUES (4, '2026-11-27 18:08:27.574654+00', 'default', 'tests.upgrade.tasks.fail_once', 0, 1, 0, 0, 0, 0, 0, 0, 1.6183976020000064, 0.0008737299999665993, '{0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0}', '{1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}');
INSERT INTO public.pgqueue_worker VALUES ('ad96cb78-28de-4bfa-a8c5-beed00000001', 'vm', 17271, '2026-11-27 18:08:28.89108+00', '2026-11-27 18:08:28.994256+00', NULL, '{}', NULL, '{"async": 0, "duties": true, "threads": 1, "version": "0.1.0"}');
SELECT pg_catalog.setval('public.auth_group_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 61, true);
SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 39, true);
SELECT pg_catalog.setval('public.django_migrations_id_seq', 22, true);
SELECT pg_catalog.setval('public.pgqueue_bell_id_seq', 5, true);
SELECT pg_catalog.setval('public.pgqueue_event_inbox_id_seq', 2, true);
SELECT pg_catalog.setval('public.pgqueue_flow_id_seq', 1, true);
SELECT pg_catalog.setval('public.pgqueue_message_id_seq', 18, true);
SELECT pg_catalog.setval('public.pgqueue_policy_id_seq', 1, true);
SELECT pg_catalog.setval('public.pgqueue_tally_id_seq', 4, true);
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
ALTER TABLE ONLY public.pgqueue_backfill
    ADD CONSTRAINT pgqueue_backfill_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_bell
    ADD CONSTRAINT pgqueue_bell_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_blocked
    ADD CONSTRAINT pgqueue_blocked_pkey PRIMARY KEY (message_id);
ALTER TABLE ONLY public.pgqueue_channel
    ADD CONSTRAINT pgqueue_channel_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_cursor
    ADD CONSTRAINT pgqueue_cursor_pkey PRIMARY KEY ("group", partition);
ALTER TABLE ONLY public.pgqueue_dedupe
    ADD CONSTRAINT pgqueue_dedupe_pkey PRIMARY KEY (channel, dedupe_key);
ALTER TABLE ONLY public.pgqueue_dependency
    ADD CONSTRAINT pgqueue_dependency_pkey PRIMARY KEY (flow_id, child_id, parent_id);
ALTER TABLE ONLY public.pgqueue_duty
    ADD CONSTRAINT pgqueue_duty_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_event
    ADD CONSTRAINT pgqueue_event_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY public.pgqueue_event_0
    ADD CONSTRAINT pgqueue_event_0_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY public.pgqueue_event_1
    ADD CONSTRAINT pgqueue_event_1_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY public.pgqueue_event_inbox
    ADD CONSTRAINT pgqueue_event_inbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_export
    ADD CONSTRAINT pgqueue_export_pkey PRIMARY KEY (target);
ALTER TABLE ONLY public.pgqueue_failed_member
    ADD CONSTRAINT pgqueue_failed_member_pkey PRIMARY KEY (message_id);
ALTER TABLE ONLY public.pgqueue_flow
    ADD CONSTRAINT pgqueue_flow_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_gate
    ADD CONSTRAINT pgqueue_gate_pkey PRIMARY KEY (channel);
ALTER TABLE ONLY public.pgqueue_group
    ADD CONSTRAINT pgqueue_group_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_identity
    ADD CONSTRAINT pgqueue_identity_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY public.pgqueue_lane
    ADD CONSTRAINT pgqueue_lane_pkey PRIMARY KEY (channel, key);
ALTER TABLE ONLY public.pgqueue_lock
    ADD CONSTRAINT pgqueue_lock_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_log_floor
    ADD CONSTRAINT pgqueue_log_floor_pkey PRIMARY KEY (log);
ALTER TABLE ONLY public.pgqueue_message
    ADD CONSTRAINT pgqueue_message_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_operation
    ADD CONSTRAINT pgqueue_operation_pkey PRIMARY KEY (message_id);
ALTER TABLE ONLY public.pgqueue_policy
    ADD CONSTRAINT pgqueue_policy_once UNIQUE (channel, scope, key);
ALTER TABLE ONLY public.pgqueue_policy
    ADD CONSTRAINT pgqueue_policy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_purged
    ADD CONSTRAINT pgqueue_purged_pkey PRIMARY KEY (keep);
ALTER TABLE ONLY public.pgqueue_reader
    ADD CONSTRAINT pgqueue_reader_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_schedule
    ADD CONSTRAINT pgqueue_schedule_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_staged
    ADD CONSTRAINT pgqueue_staged_pkey PRIMARY KEY (attempt, number);
ALTER TABLE ONLY public.pgqueue_statistic
    ADD CONSTRAINT pgqueue_statistic_pkey PRIMARY KEY (period, at, channel, task);
ALTER TABLE ONLY public.pgqueue_subscription
    ADD CONSTRAINT pgqueue_subscription_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pgqueue_tally_batch
    ADD CONSTRAINT pgqueue_tally_batch_pkey PRIMARY KEY (source);
ALTER TABLE ONLY public.pgqueue_tally
    ADD CONSTRAINT pgqueue_tally_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_total
    ADD CONSTRAINT pgqueue_total_pkey PRIMARY KEY (channel, task);
ALTER TABLE ONLY public.pgqueue_waiter
    ADD CONSTRAINT pgqueue_waiter_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_webhook
    ADD CONSTRAINT pgqueue_webhook_pkey PRIMARY KEY (subscription_id);
ALTER TABLE ONLY public.pgqueue_worker
    ADD CONSTRAINT pgqueue_worker_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pgqueue_write
    ADD CONSTRAINT pgqueue_write_pkey PRIMARY KEY (app_id);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX pgqueue_backfill_name_dbc104fd_like ON public.pgqueue_backfill USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_bell_turns ON public.pgqueue_bell USING btree (channel, id);
CREATE INDEX pgqueue_blocked_watched ON public.pgqueue_blocked USING btree (watched_id);
CREATE INDEX pgqueue_channel_name_28ecab27_like ON public.pgqueue_channel USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_dedupe_expires ON public.pgqueue_dedupe USING btree (expires_at);
CREATE INDEX pgqueue_dependency_parent ON public.pgqueue_dependency USING btree (parent_id);
CREATE INDEX pgqueue_duty_name_2e198974_like ON public.pgqueue_duty USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_event_created_at ON ONLY public.pgqueue_event USING brin (created_at);
CREATE INDEX pgqueue_event_0_created_at_idx ON public.pgqueue_event_0 USING brin (created_at);
CREATE INDEX pgqueue_event_1_created_at_idx ON public.pgqueue_event_1 USING brin (created_at);
CREATE INDEX pgqueue_export_target_a64e0af3_like ON public.pgqueue_export USING btree (target text_pattern_ops);
CREATE INDEX pgqueue_failed_member_flow_id_480ef2eb ON public.pgqueue_failed_member USING btree (flow_id);
CREATE INDEX pgqueue_flow_ended ON public.pgqueue_flow USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX pgqueue_flow_living ON public.pgqueue_flow USING btree (created_at) WHERE (ended_at IS NULL);
CREATE INDEX pgqueue_gate_channel_ad1e2695_like ON public.pgqueue_gate USING btree (channel text_pattern_ops);
CREATE INDEX pgqueue_group_name_3f0cac88_like ON public.pgqueue_group USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_history_finished_at ON ONLY public.pgqueue_history USING brin (finished_at);
CREATE INDEX pgqueue_history_20261126_finished_at_idx ON public.pgqueue_history_20261126 USING brin (finished_at);
CREATE INDEX pgqueue_history_flow ON ONLY public.pgqueue_history USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261126_flow_id_idx ON public.pgqueue_history_20261126 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_id ON ONLY public.pgqueue_history USING btree (id);
CREATE INDEX pgqueue_history_20261126_id_idx ON public.pgqueue_history_20261126 USING btree (id);
CREATE INDEX pgqueue_history_txid ON ONLY public.pgqueue_history USING btree (txid, id);
CREATE INDEX pgqueue_history_20261126_txid_id_idx ON public.pgqueue_history_20261126 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261127_finished_at_idx ON public.pgqueue_history_20261127 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261127_flow_id_idx ON public.pgqueue_history_20261127 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261127_id_idx ON public.pgqueue_history_20261127 USING btree (id);
CREATE INDEX pgqueue_history_20261127_txid_id_idx ON public.pgqueue_history_20261127 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261128_finished_at_idx ON public.pgqueue_history_20261128 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261128_flow_id_idx ON public.pgqueue_history_20261128 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261128_id_idx ON public.pgqueue_history_20261128 USING btree (id);
CREATE INDEX pgqueue_history_20261128_txid_id_idx ON public.pgqueue_history_20261128 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261129_finished_at_idx ON public.pgqueue_history_20261129 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261129_flow_id_idx ON public.pgqueue_history_20261129 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261129_id_idx ON public.pgqueue_history_20261129 USING btree (id);
CREATE INDEX pgqueue_history_20261129_txid_id_idx ON public.pgqueue_history_20261129 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261130_finished_at_idx ON public.pgqueue_history_20261130 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261130_flow_id_idx ON public.pgqueue_history_20261130 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261130_id_idx ON public.pgqueue_history_20261130 USING btree (id);
CREATE INDEX pgqueue_history_20261130_txid_id_idx ON public.pgqueue_history_20261130 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261201_finished_at_idx ON public.pgqueue_history_20261201 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261201_flow_id_idx ON public.pgqueue_history_20261201 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261201_id_idx ON public.pgqueue_history_20261201 USING btree (id);
CREATE INDEX pgqueue_history_20261201_txid_id_idx ON public.pgqueue_history_20261201 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261202_finished_at_idx ON public.pgqueue_history_20261202 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261202_flow_id_idx ON public.pgqueue_history_20261202 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261202_id_idx ON public.pgqueue_history_20261202 USING btree (id);
CREATE INDEX pgqueue_history_20261202_txid_id_idx ON public.pgqueue_history_20261202 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261203_finished_at_idx ON public.pgqueue_history_20261203 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261203_flow_id_idx ON public.pgqueue_history_20261203 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261203_id_idx ON public.pgqueue_history_20261203 USING btree (id);
CREATE INDEX pgqueue_history_20261203_txid_id_idx ON public.pgqueue_history_20261203 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261204_finished_at_idx ON public.pgqueue_history_20261204 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261204_flow_id_idx ON public.pgqueue_history_20261204 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261204_id_idx ON public.pgqueue_history_20261204 USING btree (id);
CREATE INDEX pgqueue_history_20261204_txid_id_idx ON public.pgqueue_history_20261204 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261205_finished_at_idx ON public.pgqueue_history_20261205 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261205_flow_id_idx ON public.pgqueue_history_20261205 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261205_id_idx ON public.pgqueue_history_20261205 USING btree (id);
CREATE INDEX pgqueue_history_20261205_txid_id_idx ON public.pgqueue_history_20261205 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261206_finished_at_idx ON public.pgqueue_history_20261206 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261206_flow_id_idx ON public.pgqueue_history_20261206 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261206_id_idx ON public.pgqueue_history_20261206 USING btree (id);
CREATE INDEX pgqueue_history_20261206_txid_id_idx ON public.pgqueue_history_20261206 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261207_finished_at_idx ON public.pgqueue_history_20261207 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261207_flow_id_idx ON public.pgqueue_history_20261207 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261207_id_idx ON public.pgqueue_history_20261207 USING btree (id);
CREATE INDEX pgqueue_history_20261207_txid_id_idx ON public.pgqueue_history_20261207 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261208_finished_at_idx ON public.pgqueue_history_20261208 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261208_flow_id_idx ON public.pgqueue_history_20261208 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261208_id_idx ON public.pgqueue_history_20261208 USING btree (id);
CREATE INDEX pgqueue_history_20261208_txid_id_idx ON public.pgqueue_history_20261208 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261209_finished_at_idx ON public.pgqueue_history_20261209 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261209_flow_id_idx ON public.pgqueue_history_20261209 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261209_id_idx ON public.pgqueue_history_20261209 USING btree (id);
CREATE INDEX pgqueue_history_20261209_txid_id_idx ON public.pgqueue_history_20261209 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261210_finished_at_idx ON public.pgqueue_history_20261210 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261210_flow_id_idx ON public.pgqueue_history_20261210 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261210_id_idx ON public.pgqueue_history_20261210 USING btree (id);
CREATE INDEX pgqueue_history_20261210_txid_id_idx ON public.pgqueue_history_20261210 USING btree (txid, id);
CREATE INDEX pgqueue_history_20261211_finished_at_idx ON public.pgqueue_history_20261211 USING brin (finished_at);
CREATE INDEX pgqueue_history_20261211_flow_id_idx ON public.pgqueue_history_20261211 USING btree (flow_id) WHERE (flow_id IS NOT NULL);
CREATE INDEX pgqueue_history_20261211_id_idx ON public.pgqueue_history_20261211 USING btree (id);
CREATE INDEX pgqueue_history_20261211_txid_id_idx ON public.pgqueue_history_20261211 USING btree (txid, id);
CREATE INDEX pgqueue_lane_runnable ON public.pgqueue_lane USING btree (channel, turn_at) WHERE (state = 'runnable'::text);
CREATE INDEX pgqueue_lane_throttled ON public.pgqueue_lane USING btree (wake_at) WHERE (state = 'throttled'::text);
CREATE INDEX pgqueue_log_floor_log_1edd4981_like ON public.pgqueue_log_floor USING btree (log text_pattern_ops);
CREATE INDEX pgqueue_message_dead ON public.pgqueue_message USING btree (channel, key, id) WHERE (state = 'dead'::text);
CREATE INDEX pgqueue_message_dead_since ON public.pgqueue_message USING btree (channel, claimed_at) WHERE ((claimed_at IS NOT NULL) AND (state = 'dead'::text));
CREATE UNIQUE INDEX pgqueue_message_dedupe ON public.pgqueue_message USING btree (channel, dedupe_key) WHERE ((dedupe_key IS NOT NULL) AND (state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text, 'running'::text])));
CREATE INDEX pgqueue_message_due ON public.pgqueue_message USING btree (run_at) WHERE (state = 'scheduled'::text);
CREATE INDEX pgqueue_message_expires ON public.pgqueue_message USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state = ANY (ARRAY['held'::text, 'scheduled'::text, 'ready'::text])));
CREATE INDEX pgqueue_message_flow ON public.pgqueue_message USING btree (flow_id, id) WHERE (flow_id IS NOT NULL);
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
CREATE INDEX pgqueue_subscription_name_f01d7737_like ON public.pgqueue_subscription USING btree (name text_pattern_ops);
CREATE INDEX pgqueue_waiter_message ON public.pgqueue_waiter USING btree (message_id);
CREATE INDEX pgqueue_webhook_subscription_id_cd9ec8d5_like ON public.pgqueue_webhook USING btree (subscription_id text_pattern_ops);
CREATE INDEX pgqueue_write_app_id_77585683_like ON public.pgqueue_write USING btree (app_id text_pattern_ops);
ALTER INDEX public.pgqueue_event_created_at ATTACH PARTITION public.pgqueue_event_0_created_at_idx;
ALTER INDEX public.pgqueue_event_pkey ATTACH PARTITION public.pgqueue_event_0_pkey;
ALTER INDEX public.pgqueue_event_created_at ATTACH PARTITION public.pgqueue_event_1_created_at_idx;
ALTER INDEX public.pgqueue_event_pkey ATTACH PARTITION public.pgqueue_event_1_pkey;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261126_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261126_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261126_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261126_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261127_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261127_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261127_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261127_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261128_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261128_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261128_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261128_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261129_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261129_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261129_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261129_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261130_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261130_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261130_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261130_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261201_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261201_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261201_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261201_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261202_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261202_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261202_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261202_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261203_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261203_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261203_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261203_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261204_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261204_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261204_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261204_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261205_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261205_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261205_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261205_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261206_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261206_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261206_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261206_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261207_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261207_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261207_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261207_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261208_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261208_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261208_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261208_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261209_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261209_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261209_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261209_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261210_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261210_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261210_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261210_txid_id_idx;
ALTER INDEX public.pgqueue_history_finished_at ATTACH PARTITION public.pgqueue_history_20261211_finished_at_idx;
ALTER INDEX public.pgqueue_history_flow ATTACH PARTITION public.pgqueue_history_20261211_flow_id_idx;
ALTER INDEX public.pgqueue_history_id ATTACH PARTITION public.pgqueue_history_20261211_id_idx;
ALTER INDEX public.pgqueue_history_txid ATTACH PARTITION public.pgqueue_history_20261211_txid_id_idx;
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
ALTER TABLE ONLY public.pgqueue_webhook
    ADD CONSTRAINT pgqueue_webhook_subscription FOREIGN KEY (subscription_id) REFERENCES public.pgqueue_subscription(name) ON DELETE CASCADE;
