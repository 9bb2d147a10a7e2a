-- The tables refuse what clients can't read: see 0001_bounds.
ALTER TABLE pgqueue_step
    ADD CONSTRAINT pgqueue_step_times
    CHECK (started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND finished_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_step_numbers
    CHECK (message_id > 0 AND number >= 0 AND attempt >= 0 AND tries >= 0),
    ADD CONSTRAINT pgqueue_step_lengths
    CHECK (octet_length(name) <= 200),
    ADD CONSTRAINT pgqueue_step_arrays
    CHECK (CASE WHEN array_ndims(signals) > 1 THEN false ELSE array_position(signals, NULL) IS NULL END);
ALTER TABLE pgqueue_signal
    ADD CONSTRAINT pgqueue_signal_times
    CHECK (sent_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_signal_numbers
    CHECK (id > 0 AND message_id > 0 AND coalesce(sender_id > 0, true)),
    ADD CONSTRAINT pgqueue_signal_lengths
    CHECK (octet_length(name) <= 210 AND coalesce(octet_length(dedupe_id) <= 200, true));
ALTER TABLE pgqueue_event_wait
    ADD CONSTRAINT pgqueue_event_wait_numbers
    CHECK (message_id > 0 AND position BETWEEN 0 AND 4611686018427387904),
    ADD CONSTRAINT pgqueue_event_wait_lengths
    CHECK (octet_length(step) <= 200 AND octet_length(topic) <= 200 AND coalesce(octet_length(key) <= 1000, true)),
    ADD CONSTRAINT pgqueue_event_wait_json
    CHECK (jsonb_typeof(vars) = 'object');
ALTER TABLE pgqueue_bell
    ADD CONSTRAINT pgqueue_bell_woken
    CHECK (CASE WHEN array_ndims(woken) > 1 THEN false ELSE array_position(woken, NULL) IS NULL END);

ALTER TABLE pgqueue_step SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);

ALTER TABLE pgqueue_event_wait SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE pgqueue_signal SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Remove the steps and signals of a message that ends, and return them as history keeps them.
--
-- given: further steps of its last run, which were not stored yet.
CREATE FUNCTION pgqueue_take_steps_v1(message bigint, channel text, given jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    steps jsonb;
    signals jsonb;
BEGIN
    -- Messages that it waits for, and that are of no use without it.
    PERFORM pgqueue_enqueue(
        'pgqueue.durable.cleaning.cancel_calls', jsonb_build_object('args', jsonb_build_array(s.result ->> 'flow')),
        channel => pgqueue_take_steps_v1.channel)
    FROM pgqueue_step s
    WHERE s.message_id = message AND s.kind = 'call' AND s.state = 'waiting' AND s.result -> 'cancels' = 'true';
    WITH gone AS (
        DELETE FROM pgqueue_step s WHERE s.message_id = message RETURNING s.*
    ), further AS (
        -- Sleeps that are over are stored already.
        SELECT r.value ->> 'name' AS name, r.value AS step FROM jsonb_array_elements(given) r
    )
    SELECT jsonb_agg(each.step ORDER BY (each.step ->> 'number')::integer) INTO steps
    FROM (
        SELECT coalesce(to_jsonb(gone) - 'message_id', '{}') || coalesce(further.step, '{}') AS step
        FROM gone FULL JOIN further USING (name)
    ) each;
    WITH gone AS (
        DELETE FROM pgqueue_signal s WHERE s.message_id = message RETURNING s.*
    )
    SELECT jsonb_agg(to_jsonb(gone) - 'message_id' ORDER BY gone.id) INTO signals FROM gone;
    DELETE FROM pgqueue_blocked b WHERE b.message_id = message AND NOT EXISTS (
        SELECT FROM pgqueue_message m WHERE m.id = message AND m.flow_id = b.flow_id);
    DELETE FROM pgqueue_event_wait w WHERE w.message_id = message;
    IF steps IS NULL AND signals IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN jsonb_build_object('steps', coalesce(steps, '[]'), 'signals', coalesce(signals, '[]'));
END $$;

-- Send a signal to a message. Nothing is locked, and no shared row is changed: a transaction may stay open.
--
-- sender: the message whose run sends it.
--
-- Returns 'sent'; 'repeated', if a signal with this dedupe_id was sent; 'ended', if the message is not live.
CREATE FUNCTION pgqueue_signal_v1(
    message bigint, signal text, payload jsonb DEFAULT NULL, dedupe_id text DEFAULT NULL, sender bigint DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    reached record;
BEGIN
    IF signal LIKE '@%' THEN
        RAISE EXCEPTION 'The signal % has a name of pgqueue itself.', quote_literal(signal)
            USING ERRCODE = 'insufficient_privilege', HINT = 'Only events of the log come by names that begin with "@".';
    END IF;
    IF NOT has_table_privilege('pgqueue_signal'::regclass, 'INSERT') THEN
        RETURN pgqueue_produce_signal_v1($1, $2, $3, $4, $5);
    END IF;
    SELECT m.channel INTO reached FROM pgqueue_message m WHERE m.id = message;
    IF NOT FOUND THEN
        RETURN 'ended';
    END IF;
    INSERT INTO pgqueue_signal AS s (message_id, name, payload, dedupe_id, sender_id)
    VALUES (message, signal, payload, pgqueue_signal_v1.dedupe_id, sender)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'repeated';
    END IF;
    INSERT INTO pgqueue_bell (channel, woken) VALUES (reached.channel, ARRAY[message]);
    PERFORM pgqueue_tell_v1(reached.channel);
    RETURN 'sent';
END $$;

-- Return the id and the task of the live message that a signal is for: of its id, or of a dedupe key in a channel.
CREATE FUNCTION pgqueue_signalled_v1(message bigint, channel text, dedupe_key text, OUT id bigint, OUT task text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT has_table_privilege('pgqueue_signal'::regclass, 'INSERT') THEN
        SELECT s.id, s.task INTO id, task FROM pgqueue_produce_signalled_v1($1, $2, $3) s;
    ELSIF message IS NOT NULL THEN
        SELECT m.id, m.task INTO id, task FROM pgqueue_message m WHERE m.id = $1;
    ELSE
        SELECT m.id, m.task INTO id, task
        FROM pgqueue_message m
        WHERE m.dedupe_key = $3 AND m.state IN ('held', 'scheduled', 'ready', 'running') AND m.channel = $2
        ORDER BY m.id
        LIMIT 1;
    END IF;
END $$;

-- A producer sends signals, and reads none.
CREATE FUNCTION pgqueue_produce_signal_v1(message bigint, signal text, payload jsonb, dedupe_id text, sender bigint)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN pgqueue_signal_v1($1, $2, $3, $4, $5);
END $$;

CREATE FUNCTION pgqueue_produce_signalled_v1(
    message bigint, channel text, dedupe_key text, OUT id bigint, OUT task text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    SELECT s.id, s.task INTO id, task FROM pgqueue_signalled_v1($1, $2, $3) s;
END $$;

-- Lock the message of a run that is under way; return whether its lease still holds.
--
-- The lock waits for a change of the row that is not committed yet, such as a rescue, and then reads the row again. So a
-- run that has lost its message stores nothing. Heartbeat and rescue skip the row meanwhile.
CREATE FUNCTION pgqueue_lock_run_v1(message bigint, attempt integer, worker uuid)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM pgqueue_message m
    WHERE m.id = message AND m.attempt = pgqueue_lock_run_v1.attempt AND m.worker_id = worker AND m.state || '' = 'running'
    FOR SHARE;
    RETURN FOUND;
END $$;

-- Store the side values of a run that were not stored yet: they cost no transaction of their own.
CREATE FUNCTION pgqueue_store_values_v1(message bigint, attempt integer, given jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgqueue_step (message_id, name, number, kind, state, result, tries, attempt, started_at, finished_at)
    SELECT message, r.name, r.number, r.kind, 'done', r.result, 1, pgqueue_store_values_v1.attempt,
           statement_timestamp(), statement_timestamp()
    FROM jsonb_to_recordset(given) AS r (name text, number integer, kind text, result jsonb)
    ON CONFLICT (message_id, name) DO UPDATE
    SET state = 'done', result = excluded.result, finished_at = excluded.finished_at, until = NULL
    WHERE pgqueue_step.state = 'waiting';
END $$;

-- Store what became of a step; a step that is done stays as it is.
--
-- Returns 'stored'; 'lost', if the lease of the run does not hold any more; 'done', if the step is done already: then
-- another run has done it, which had lost the message meanwhile.
CREATE FUNCTION pgqueue_store_step_v1(
    message bigint, attempt integer, worker uuid, name text, number integer, kind text, function text, state text,
    result jsonb, error jsonb, tries integer, delay interval, until timestamptz, took interval, given jsonb)
RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF NOT pgqueue_lock_run_v1(message, attempt, worker) THEN
        RETURN 'lost';
    END IF;
    IF given IS NOT NULL THEN
        PERFORM pgqueue_store_values_v1(message, attempt, given);
    END IF;
    INSERT INTO pgqueue_step AS s
        (message_id, name, number, kind, function, state, result, error, tries, attempt, until, started_at, finished_at)
    VALUES (message, name, number, kind, function, state, result, error, tries, attempt, coalesce(until, statement_timestamp() + delay),
            statement_timestamp() - took, CASE WHEN state IN ('done', 'failed') THEN statement_timestamp() END)
    ON CONFLICT ON CONSTRAINT pgqueue_step_pkey DO UPDATE
    SET state = excluded.state, result = excluded.result, error = excluded.error, tries = excluded.tries,
        attempt = excluded.attempt, until = excluded.until, finished_at = excluded.finished_at
    WHERE s.state IN ('retrying', 'waiting');
    RETURN CASE WHEN FOUND THEN 'stored' ELSE 'done' END;
END $$;

-- Take the first signal of one of these names that no step has taken, and store it as the result of a step that waits
-- for it. Without a signal, the step ends if its time is over.
--
-- Returns 'taken', 'over' or 'none'; 'lost', as pgqueue_store_step_v1 does; and the result.
CREATE FUNCTION pgqueue_take_signal_v1(
    message bigint, attempt integer, worker uuid, name text, number integer, kind text, names text[], given jsonb,
    OUT came_of text, OUT result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    first record;
    step record;
BEGIN
    IF NOT pgqueue_lock_run_v1(message, attempt, worker) THEN
        came_of := 'lost';
        RETURN;
    END IF;
    IF given IS NOT NULL THEN
        PERFORM pgqueue_store_values_v1(message, attempt, given);
    END IF;
    SELECT s.id, s.name, s.payload INTO first
    FROM pgqueue_signal s
    WHERE s.message_id = message AND s.name = ANY (names) AND s.taken_by IS NULL
    ORDER BY s.id
    LIMIT 1;
    came_of := CASE WHEN FOUND THEN 'taken' ELSE 'none' END;
    IF came_of = 'none' THEN
        SELECT s.until <= clock_timestamp() AS is_over INTO step
        FROM pgqueue_step s WHERE s.message_id = message AND s.name = name AND s.state = 'waiting';
        IF NOT coalesce(step.is_over, false) THEN
            RETURN;
        END IF;
        came_of := 'over';
        result := NULL;
    ELSE
        UPDATE pgqueue_signal s SET taken_by = name WHERE s.id = first.id;
        result := jsonb_build_object('signal', first.id, 'name', first.name, 'payload', first.payload);
    END IF;
    INSERT INTO pgqueue_step AS s
        (message_id, name, number, kind, state, signals, result, tries, attempt, started_at, finished_at)
    VALUES (message, name, number, kind, 'done', names, result::jsonb, 1, attempt, statement_timestamp(), statement_timestamp())
    ON CONFLICT ON CONSTRAINT pgqueue_step_pkey DO UPDATE
    SET state = 'done', result = excluded.result, attempt = excluded.attempt, finished_at = excluded.finished_at;
END $$;

-- As version 1, with the steps of each message.
CREATE FUNCTION pgqueue_end_v2(ids bigint[], how text)
RETURNS TABLE (id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    IF NOT has_table_privilege('pgqueue_history'::regclass, 'INSERT') THEN
        RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_operate_end_v2($1, $2) e;
        RETURN;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM pgqueue_message m WHERE m.id = ANY ($1) AND m.state <> 'running' RETURNING m.*
    ), kept AS (
        INSERT INTO pgqueue_history (
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, outcome, steps)
        SELECT
            id, channel, key, task, payload, body, metadata, options, priority, run_at, expires_at,
            worker_id, attempt, failures, lost, max_attempts, ordered, dedupe_key, progress, errors,
            claimed_at, cancel_requested_at, parent_id, flow_id, created_at, started_at, $2, pgqueue_take_steps_v1(id, channel, NULL)
        FROM gone
    )
    SELECT g.id, g.channel, g.key, g.governed, g.flow_id, $2 FROM gone g;
END $$;

CREATE FUNCTION pgqueue_operate_end_v2(ids bigint[], how text)
RETURNS TABLE (id bigint, channel text, key text, governed boolean, flow_id bigint, outcome text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF $2 IS NULL OR $2 NOT IN ('cancelled', 'discarded') THEN
        RAISE EXCEPTION '% is no outcome that an operator decides.', quote_nullable($2)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY SELECT e.id, e.channel, e.key, e.governed, e.flow_id, e.outcome FROM pgqueue_end_v2($1, $2) e;
END $$;

-- They trust no temporary table, and no other schema; and they are for the roles that roles.sql names.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
        WHERE c.oid = 'pgqueue_message'::regclass AND p.prosecdef
          AND p.proname IN ('pgqueue_operate_end_v2', 'pgqueue_produce_signal_v1', 'pgqueue_produce_signalled_v1')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function,
                       (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE c.oid = 'pgqueue_message'::regclass));
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
