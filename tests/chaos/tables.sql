-- What tasks leave behind, for the ledger.

CREATE TABLE chaos_effect (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number bigint NOT NULL,
    message_id bigint NOT NULL,
    attempt int NOT NULL
);

-- From when to when a limited task ran, as it saw that itself.
CREATE TABLE chaos_run (
    message_id bigint NOT NULL,
    attempt int NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    PRIMARY KEY (message_id, attempt)
);

-- For a proxy that lets a statement fail: any SQLSTATE.
CREATE FUNCTION chaos_fail(code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'injected' USING ERRCODE = code;
END $$;

INSERT INTO pgqueue_policy (channel, scope, key, max_running)
VALUES ('limited', 'channel', '', 5), ('limited', 'each', '', 2);
