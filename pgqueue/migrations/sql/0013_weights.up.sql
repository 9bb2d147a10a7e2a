ALTER TABLE pgqueue_lane ADD CONSTRAINT pgqueue_lane_heaviest CHECK (heaviest BETWEEN 1 AND 100);
ALTER TABLE pgqueue_lane ADD CONSTRAINT pgqueue_lane_urgent_times
    CHECK (urgent_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_gate ADD CONSTRAINT pgqueue_gate_heaviest CHECK (heaviest BETWEEN 1 AND 100);

-- The function without the argument `weight` gets another name, and is not dropped: calls that are under way, views and
-- functions may refer to it.
ALTER FUNCTION pgqueue_enqueue(
    text, jsonb, text, text, integer, timestamptz, interval, timestamptz, interval, integer, boolean, text, interval,
    boolean, interval, jsonb, bytea)
RENAME TO pgqueue_enqueue_unweighted;

-- Enqueue from triggers, psql and other languages. It returns the id of the new message, or of the one that has the same
-- dedupe_key. A value that is not storable is refused by the name of its argument, and `infinity` means that a message
-- never expires. `weight` is how many messages it counts for in the limits of its channel and its key.
CREATE FUNCTION pgqueue_enqueue(
    task text,
    payload jsonb DEFAULT '{"args": [], "kwargs": {}}',
    channel text DEFAULT 'default',
    key text DEFAULT '',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    run_after interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    expires_after interval DEFAULT NULL,
    max_attempts integer DEFAULT 20,
    ordered boolean DEFAULT false,
    dedupe_key text DEFAULT NULL,
    dedupe_for interval DEFAULT NULL,
    replaces boolean DEFAULT false,
    held_for interval DEFAULT NULL,
    metadata jsonb DEFAULT '{}',
    body bytea DEFAULT NULL,
    weight integer DEFAULT 1)
RETURNS bigint LANGUAGE plpgsql AS $$
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
    IF weight IS NULL OR weight NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'weight must be from 1 to 100, and is %.', weight USING ERRCODE = 'invalid_parameter_value';
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
        pgqueue_as_name_v1('task', task, 1000), payload, body, metadata,
        CASE WHEN weight > 1 THEN jsonb_build_object('weight', weight) END, priority::smallint, max_attempts,
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
