-- Handlers of messages leave their effects here, for the checker.

CREATE TABLE proof_effect (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL,
    number bigint NOT NULL,
    attempt int NOT NULL,
    xid text NOT NULL DEFAULT pg_current_xact_id()::text,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

INSERT INTO pgqueue_policy (channel, scope, key, max_running)
VALUES ('crowded', 'channel', '', 4), ('crowded', 'each', '', 2);
INSERT INTO pgqueue_policy (channel, scope, key, rate, burst)
VALUES ('metered', 'channel', '', 20, 5);
