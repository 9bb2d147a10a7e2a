-- Take the id of a flow that is stored later, in the same transaction.
CREATE FUNCTION pgqueue_reserve_flow_v1() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        RETURN (pgqueue_produce_ids_v1('flow', 1))[1];
    END IF;
    RETURN nextval('pgqueue_flow_id_seq');
END $$;

-- Store a flow, with the ids of its messages that have names.
CREATE FUNCTION pgqueue_begin_flow_v1(id bigint, name text, handler_id bigint, names jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pgqueue_stores_messages_v1() THEN
        PERFORM pgqueue_produce_flow_v1($1, $2, $3, $4);
        RETURN;
    END IF;
    INSERT INTO pgqueue_flow (id, name, handler_id, names) VALUES ($1, $2, $3, $4);
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
