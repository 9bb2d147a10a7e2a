-- Faults of functions, mended in place: old code calls these, too, and goes on with the mended ones.
--
-- The functions are in the schema of the tables, which need not be first in the search_path.
SELECT set_config('pgqueue.search_path', current_setting('search_path'), true),
       set_config('search_path', quote_ident(n.nspname) || ', ' || current_setting('search_path'), true)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = 'pgqueue_message'::regclass;

-- Store a message unless its dedupe_key is taken: by a live message, or by one that is remembered. It
-- waits for a transaction that has stored the same key and is not committed. `DO UPDATE` locks the row
-- that it finds: only where claims take the key away, so that it never finds a message that runs.
-- A message of a flow is never replaced: others take what it returns, and it may wait for others. Nor is a run that has
-- done a step, has stored its progress or has continued as another round: all of it belongs to its own arguments. Before a
-- first run, `continued` in the metadata is the producer's.
CREATE OR REPLACE FUNCTION pgqueue_store_once_v1(
    given pgqueue_message, dedupe_for interval, replaces boolean, OUT id bigint, OUT came_of text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    is_new boolean;
    waiting bigint;
    is_unlocked boolean;
BEGIN
    IF replaces AND dedupe_for IS NOT NULL THEN
        RAISE EXCEPTION 'dedupe_for remembers a message after its end, replaces => true replaces it: choose one.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
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
        IF replaces THEN
            -- Nothing claims it from now on, so the next statement sees all steps that it has done.
            SELECT m.id INTO waiting FROM pgqueue_message m
            WHERE m.channel = given.channel AND m.dedupe_key = given.dedupe_key AND m.state IN ('held', 'scheduled', 'ready')
            FOR UPDATE;
        END IF;
        IF replaces AND NOT EXISTS (
            SELECT FROM pgqueue_message m
            WHERE m.channel = given.channel AND m.dedupe_key = given.dedupe_key
              AND m.state IN ('held', 'scheduled', 'ready', 'running')
              AND (m.state = 'running' OR m.progress IS NOT NULL OR (m.attempt > 0 AND m.metadata ? 'continued')
                   OR EXISTS (SELECT FROM pgqueue_step s WHERE s.message_id = m.id)))
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
                -- The failures are of the replaced arguments. Their errors stay in the list: an operator may not write it.
                failures = 0, lost = 0,
                governed = m.ordered OR pgqueue_is_governed_v1(m.channel, m.key)
            WHERE m.state IN ('held', 'scheduled', 'ready') AND m.flow_id IS NULL
              -- Of one that was suspended since, the snapshot of this statement has no steps.
              AND m.id = waiting
            RETURNING m.id, m.id = given.id INTO id, is_new;
            IF FOUND THEN
                came_of := CASE WHEN is_new THEN 'stored' ELSE 'replaced' END;
                RETURN;
            END IF;
        ELSE
            INSERT INTO pgqueue_message
                (id, channel, key, task, payload, body, metadata, options, priority, max_attempts, state,
                 run_at, created_at, expires_at, lease_until, ordered, governed, parent_id, flow_id, dedupe_key, debounced)
            VALUES (given.id, given.channel, given.key, given.task, given.payload, given.body, given.metadata, given.options,
                    given.priority, given.max_attempts, given.state, given.run_at, given.created_at, given.expires_at,
                    given.lease_until, given.ordered, given.governed, given.parent_id, given.flow_id, given.dedupe_key,
                    coalesce(replaces, false))
            ON CONFLICT (channel, dedupe_key)
                WHERE dedupe_key IS NOT NULL AND state IN ('held', 'scheduled', 'ready', 'running')
            DO NOTHING;
            IF FOUND THEN
                id := given.id;
                came_of := 'stored';
                RETURN;
            END IF;
        END IF;
        SELECT m.id, replaces AND m.state <> 'running' AND m.flow_id IS NULL AND m.id IS DISTINCT FROM waiting
        INTO id, is_unlocked
        FROM pgqueue_message m
        WHERE m.channel = given.channel AND m.dedupe_key = given.dedupe_key
          AND m.state IN ('held', 'scheduled', 'ready', 'running');
        IF is_unlocked THEN
            -- It has begun to wait since: the next round locks it.
            CONTINUE;
        END IF;
        IF id IS NOT NULL THEN
            came_of := 'existing';
            UPDATE pgqueue_dedupe d SET message_id = pgqueue_store_once_v1.id
            WHERE dedupe_for IS NOT NULL AND d.channel = given.channel AND d.dedupe_key = given.dedupe_key;
            RETURN;
        END IF;
        -- That message has ended since: its key is free again.
    END LOOP;
END $$;

-- Remove the steps and signals of a message that ends, and return them as history keeps them.
--
-- given: further steps of its last run, which were not stored yet.
CREATE OR REPLACE FUNCTION pgqueue_take_steps_v1(message bigint, channel text, given jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    cleaning pgqueue_message;
    steps jsonb;
    signals jsonb;
BEGIN
    -- Messages that it waits for, and that are of no use without it. What removes them is stored also in a channel that is
    -- full, and waits for no other producer there: whoever ends the message may hold locks of many.
    FOR cleaning IN
        INSERT INTO pgqueue_message
            (channel, key, task, payload, metadata, priority, max_attempts, state, run_at, created_at, ordered, governed)
        SELECT pgqueue_take_steps_v1.channel, '', 'pgqueue.durable.cleaning.cancel_calls',
               jsonb_build_object('args', jsonb_build_array(s.result ->> 'flow'), 'kwargs', '{}'::jsonb), '{}', 0, 20, 'ready',
               statement_timestamp(), statement_timestamp(), false, pgqueue_is_governed_v1(pgqueue_take_steps_v1.channel, '')
        FROM pgqueue_step s
        WHERE s.message_id = message AND s.kind = 'call' AND s.state = 'waiting' AND s.result -> 'cancels' = 'true'
        RETURNING *
    LOOP
        IF cleaning.governed THEN
            INSERT INTO pgqueue_bell (channel, key) VALUES (cleaning.channel, '');
        END IF;
        PERFORM pgqueue_notice_v1(cleaning.channel, cleaning.id, 'created'), pgqueue_tell_v1(cleaning.channel);
    END LOOP;
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

-- A producer sends signals, and reads none. It runs no messages, so none of them is the sender.
CREATE OR REPLACE FUNCTION pgqueue_produce_signal_v1(message bigint, signal text, payload jsonb, dedupe_id text, sender bigint)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN pgqueue_signal_v1($1, $2, $3, $4, NULL);
END $$;

-- A function that is replaced loses its settings.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION pgqueue_produce_signal_v1 SET search_path = %I, pg_temp',
                   (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.oid = 'pgqueue_message'::regclass));
END $$;

SELECT set_config('search_path', current_setting('pgqueue.search_path'), true);
