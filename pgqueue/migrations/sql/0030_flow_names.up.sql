-- Names of a flow's messages.

ALTER TABLE pgqueue_flow ADD CONSTRAINT pgqueue_flow_json CHECK (jsonb_typeof(names) = 'object') NOT VALID;

CREATE FUNCTION pgqueue_begin_flow_v2(id bigint, name text, handler_id bigint, names jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        PERFORM pgqueue_produce_flow_v2($1, $2, $3, $4);
        RETURN;
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id, names) VALUES ($1, $2, $3, $4);
END $$;

CREATE FUNCTION pgqueue_produce_flow_v2(id bigint, name text, handler_id bigint, names jsonb) RETURNS void
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

-- As all functions that run as the owner (0019).
DO $$
DECLARE
    function constant regprocedure := 'pgqueue_produce_flow_v2(bigint, text, bigint, jsonb)';
BEGIN
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function,
                   (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.oid = 'pgqueue_message'::regclass));
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
END $$;
