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

-- Each time that a message which was held became ready.
CREATE TABLE chaos_freed (message_id bigint NOT NULL);
CREATE FUNCTION chaos_note_freed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_freed VALUES (new.id);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_note_freed AFTER UPDATE ON pgqueue_message
FOR EACH ROW WHEN (old.state = 'held' AND new.state IN ('ready', 'scheduled'))
EXECUTE FUNCTION chaos_note_freed();

-- For a proxy that lets a statement fail: any SQLSTATE.
CREATE FUNCTION chaos_fail(code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'injected' USING ERRCODE = code;
END $$;

-- And a commit, which ends its transaction all the same: whatever is in here makes it fail.
CREATE TABLE chaos_refusal (code text NOT NULL);
CREATE FUNCTION chaos_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM chaos_fail(new.code);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos_fail_late(code text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO chaos_refusal VALUES (code);
$$;
CREATE CONSTRAINT TRIGGER chaos_refuse AFTER INSERT ON chaos_refusal
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_refuse();

INSERT INTO pgqueue_policy (channel, scope, key, max_running)
VALUES ('limited', 'channel', '', 5), ('limited', 'each', '', 2);
INSERT INTO pgqueue_policy (channel, scope, key, rate, burst)
VALUES ('paced', 'channel', '', 50, 5);

-- What the readers of groups have handled.
CREATE TABLE chaos_handled (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "group" text NOT NULL,
    position bigint NOT NULL,
    number bigint NOT NULL,
    pid int NOT NULL,
    handled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
