-- Append conditions: publish only if nobody else has published an event of a topic and a key meanwhile.

ALTER TABLE pgqueue_append_lock
    -- The values that the table takes, as in 0001_bounds.
    ADD CONSTRAINT pgqueue_append_lock_names
    CHECK (topic <> '' AND octet_length(topic) <= 200 AND octet_length(key) <= 1000),
    ADD CONSTRAINT pgqueue_append_lock_times
    CHECK (used_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');

-- Each publisher with a condition writes its row again.
ALTER TABLE pgqueue_append_lock SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);

-- Return the first condition that is not met: its number, the position of the last event of its topic and key (0: there
-- is none; null: it has no position yet), and the last position of the log. All are null if all conditions are met.
--
-- $1 and $2 are of the event that the caller publishes. The others are of the conditions: no event of this topic and key
-- is after this position; if `are_last`, the event at this position is the last one.
--
-- Publishers with conditions lock a row for each topic and key that they publish or look at, always in the same order.
-- The second of two waits for the end of the first. The row is updated: a transaction with an older snapshot fails with
-- a serialization error, where the lock alone would let it pass.
CREATE FUNCTION pgqueue_unmet_condition_v1(
    topic text, key text, topics text[], keys text[], positions bigint[], are_last boolean[],
    OUT number integer, OUT last bigint, OUT head bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    condition record;
    seen record;
BEGIN
    IF NOT pgqueue_stores_events_v1() THEN
        SELECT u.number, u.last, u.head INTO number, last, head
        FROM pgqueue_produce_condition_v1($1, $2, $3, $4, $5, $6) u;
        RETURN;
    END IF;
    -- A row that nobody has used for a day is deleted. Nobody may pass with a snapshot from before that.
    IF current_setting('transaction_isolation') <> 'read committed' AND now() < statement_timestamp() - interval '1 hour' THEN
        RAISE EXCEPTION 'This transaction is too old for a condition: its snapshot may lack the events of others.'
            USING ERRCODE = 'serialization_failure', HINT = 'Begin a new transaction.';
    END IF;
    INSERT INTO pgqueue_append_lock (topic, key, used_at)
    SELECT n.topic, n.key, statement_timestamp()
    FROM (SELECT $1, $2 UNION SELECT * FROM unnest($3, $4)) AS n (topic, key)
    ORDER BY n.topic, n.key
    ON CONFLICT ON CONSTRAINT pgqueue_append_lock_pkey DO UPDATE SET used_at = excluded.used_at;
    FOR condition IN
        SELECT c.* FROM unnest($3, $4, $5, $6) WITH ORDINALITY AS c (topic, key, position, is_last, number)
    LOOP
        -- A statement after the locks sees the events of their last holders. One statement looks at the inbox and at the
        -- log: between two statements an event may move from one to the other. `key <> ''` is in the indexes of
        -- `IndexKeys`.
        SELECT EXISTS (SELECT FROM pgqueue_event_inbox i
                       WHERE i.key = condition.key AND i.key <> '' AND i.topic = condition.topic
                         AND NOT pgqueue_is_own_v1(i.xmin)) AS is_staged,
               (SELECT e.position FROM pgqueue_event e
                WHERE e.key = condition.key AND e.key <> '' AND e.topic = condition.topic
                  AND e.position >= condition.position
                ORDER BY e.position DESC LIMIT 1) AS last
        INTO seen;
        CONTINUE WHEN NOT seen.is_staged AND seen.last = condition.position;
        CONTINUE WHEN NOT seen.is_staged AND seen.last IS NULL AND condition.position = 0;
        SELECT b.head INTO head
        FROM (SELECT greatest((SELECT e.position FROM pgqueue_event e ORDER BY e.position DESC LIMIT 1),
                              (SELECT f.position FROM pgqueue_log_floor f WHERE f.log = 'event'), 0) AS head) b;
        -- Retention may have removed the event at the position; or the condition is about another kind of position.
        CONTINUE WHEN NOT seen.is_staged AND seen.last IS NULL AND condition.position <= head
            AND (NOT condition.is_last
                 OR condition.position <= (SELECT f.position FROM pgqueue_log_floor f WHERE f.log = 'event'));
        number := condition.number;
        IF NOT seen.is_staged THEN
            last := coalesce(seen.last, (
                SELECT e.position FROM pgqueue_event e
                WHERE e.key = condition.key AND e.key <> '' AND e.topic = condition.topic
                ORDER BY e.position DESC LIMIT 1), 0);
        END IF;
        RETURN;
    END LOOP;
    head := NULL;
END $$;

-- The same for a producer, who reads no events.
CREATE FUNCTION pgqueue_produce_condition_v1(
    topic text, key text, topics text[], keys text[], positions bigint[], are_last boolean[],
    OUT number integer, OUT last bigint, OUT head bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    SELECT u.number, u.last, u.head INTO number, last, head
    FROM pgqueue_unmet_condition_v1($1, $2, $3, $4, $5, $6) u;
END $$;

-- Publish from triggers, psql and other languages, if the event at `expect` is the last one of the topic and the key.
CREATE FUNCTION pgqueue_publish_if(
    topic text, key text, expect bigint, payload jsonb DEFAULT NULL, metadata jsonb DEFAULT '{}')
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    unmet record;
BEGIN
    IF key = '' THEN
        RAISE EXCEPTION 'A condition needs a key.' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF expect IS NULL OR expect < 0 THEN
        RAISE EXCEPTION '% is no position.', quote_nullable(expect)
            USING ERRCODE = 'invalid_parameter_value', HINT = '0: there is no event of the topic and the key yet.';
    END IF;
    PERFORM pgqueue_publish(topic, payload, key, metadata);  -- it checks the other arguments, too
    SELECT * INTO unmet FROM pgqueue_unmet_condition_v1($1, $2, ARRAY[$1], ARRAY[$2], ARRAY[$3], ARRAY[true]);
    IF unmet.number IS NOT NULL THEN
        RAISE EXCEPTION 'The last event of % with the key % is not at position %.', quote_literal(topic), quote_literal(key), expect
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = coalesce('It is at position ' || unmet.last || '.', 'It has no position yet.');
    END IF;
END $$;

-- It trusts no temporary table, and no other schema; and it is for the roles that roles.sql names.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
        WHERE c.oid = 'pgqueue_message'::regclass AND p.proname = 'pgqueue_produce_condition_v1'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function,
                       (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE c.oid = 'pgqueue_message'::regclass));
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
