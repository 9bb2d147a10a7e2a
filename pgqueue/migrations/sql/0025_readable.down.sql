ALTER TABLE pgqueue_backfill DROP CONSTRAINT IF EXISTS pgqueue_backfill_times,  DROP CONSTRAINT IF EXISTS pgqueue_backfill_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_backfill_json;
ALTER TABLE pgqueue_bell DROP CONSTRAINT IF EXISTS pgqueue_bell_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_bell_names,  DROP CONSTRAINT IF EXISTS pgqueue_bell_arrays;
ALTER TABLE pgqueue_cursor DROP CONSTRAINT IF EXISTS pgqueue_cursor_times,  DROP CONSTRAINT IF EXISTS pgqueue_cursor_numbers;
ALTER TABLE pgqueue_dedupe DROP CONSTRAINT IF EXISTS pgqueue_dedupe_times;
ALTER TABLE pgqueue_duty DROP CONSTRAINT IF EXISTS pgqueue_duty_times;
ALTER TABLE pgqueue_event DROP CONSTRAINT IF EXISTS pgqueue_event_times,  DROP CONSTRAINT IF EXISTS pgqueue_event_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_event_json;
ALTER TABLE pgqueue_event_inbox DROP CONSTRAINT IF EXISTS pgqueue_event_inbox_times,  DROP CONSTRAINT IF EXISTS pgqueue_event_inbox_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_event_inbox_names,  DROP CONSTRAINT IF EXISTS pgqueue_event_inbox_json;
ALTER TABLE pgqueue_export DROP CONSTRAINT IF EXISTS pgqueue_export_times,  DROP CONSTRAINT IF EXISTS pgqueue_export_numbers;
ALTER TABLE pgqueue_flow DROP CONSTRAINT IF EXISTS pgqueue_flow_times,  DROP CONSTRAINT IF EXISTS pgqueue_flow_numbers;
ALTER TABLE pgqueue_gate DROP CONSTRAINT IF EXISTS pgqueue_gate_times;
ALTER TABLE pgqueue_group DROP CONSTRAINT IF EXISTS pgqueue_group_times;
ALTER TABLE pgqueue_history DROP CONSTRAINT IF EXISTS pgqueue_history_times,  DROP CONSTRAINT IF EXISTS pgqueue_history_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_history_json;
ALTER TABLE pgqueue_lane DROP CONSTRAINT IF EXISTS pgqueue_lane_times;
ALTER TABLE pgqueue_log_floor DROP CONSTRAINT IF EXISTS pgqueue_log_floor_numbers;
ALTER TABLE pgqueue_message DROP CONSTRAINT IF EXISTS pgqueue_message_times,  DROP CONSTRAINT IF EXISTS pgqueue_message_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_message_names,  DROP CONSTRAINT IF EXISTS pgqueue_message_json;
ALTER TABLE pgqueue_operation DROP CONSTRAINT IF EXISTS pgqueue_operation_times,  DROP CONSTRAINT IF EXISTS pgqueue_operation_numbers;
ALTER TABLE pgqueue_purged DROP CONSTRAINT IF EXISTS pgqueue_purged_times,  DROP CONSTRAINT IF EXISTS pgqueue_purged_numbers;
ALTER TABLE pgqueue_reader DROP CONSTRAINT IF EXISTS pgqueue_reader_times;
ALTER TABLE pgqueue_schedule DROP CONSTRAINT IF EXISTS pgqueue_schedule_times,  DROP CONSTRAINT IF EXISTS pgqueue_schedule_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_schedule_names,  DROP CONSTRAINT IF EXISTS pgqueue_schedule_arrays;
ALTER TABLE pgqueue_staged DROP CONSTRAINT IF EXISTS pgqueue_staged_times,  DROP CONSTRAINT IF EXISTS pgqueue_staged_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_staged_json;
ALTER TABLE pgqueue_statistic DROP CONSTRAINT IF EXISTS pgqueue_statistic_times,  DROP CONSTRAINT IF EXISTS pgqueue_statistic_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_statistic_arrays;
ALTER TABLE pgqueue_subscription DROP CONSTRAINT IF EXISTS pgqueue_subscription_times,  DROP CONSTRAINT IF EXISTS pgqueue_subscription_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_subscription_arrays,  DROP CONSTRAINT IF EXISTS pgqueue_subscription_json;
ALTER TABLE pgqueue_tally DROP CONSTRAINT IF EXISTS pgqueue_tally_times,  DROP CONSTRAINT IF EXISTS pgqueue_tally_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_tally_arrays;
ALTER TABLE pgqueue_tally_batch DROP CONSTRAINT IF EXISTS pgqueue_tally_batch_times,  DROP CONSTRAINT IF EXISTS pgqueue_tally_batch_numbers;
ALTER TABLE pgqueue_total DROP CONSTRAINT IF EXISTS pgqueue_total_times,  DROP CONSTRAINT IF EXISTS pgqueue_total_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_total_arrays;
ALTER TABLE pgqueue_waiter DROP CONSTRAINT IF EXISTS pgqueue_waiter_times,  DROP CONSTRAINT IF EXISTS pgqueue_waiter_numbers;
ALTER TABLE pgqueue_webhook DROP CONSTRAINT IF EXISTS pgqueue_webhook_times,  DROP CONSTRAINT IF EXISTS pgqueue_webhook_numbers,  DROP CONSTRAINT IF EXISTS pgqueue_webhook_json;
ALTER TABLE pgqueue_worker DROP CONSTRAINT IF EXISTS pgqueue_worker_times,  DROP CONSTRAINT IF EXISTS pgqueue_worker_arrays,  DROP CONSTRAINT IF EXISTS pgqueue_worker_json;
ALTER TABLE pgqueue_write DROP CONSTRAINT IF EXISTS pgqueue_write_times,  DROP CONSTRAINT IF EXISTS pgqueue_write_numbers;

CREATE OR REPLACE FUNCTION pgqueue_enqueue(
    task text,
    payload jsonb DEFAULT '{"args": [], "kwargs": {}}',
    channel text DEFAULT 'default',
    key text DEFAULT '',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    run_after interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    expires_after interval DEFAULT NULL,
    max_attempts integer DEFAULT 5,
    ordered boolean DEFAULT false,
    dedupe_key text DEFAULT NULL,
    dedupe_for interval DEFAULT NULL,
    replaces boolean DEFAULT false,
    held_for interval DEFAULT NULL,
    metadata jsonb DEFAULT '{}',
    body bytea DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stored record;
BEGIN
    stored := pgqueue_enqueue_v1(
        channel, key, task, payload, body, metadata, NULL, priority::smallint, max_attempts, run_at, run_after,
        expires_at, expires_after, held_for, ordered, dedupe_key, dedupe_for, replaces, NULL, NULL);
    IF stored.came_of = 'full' THEN
        RAISE EXCEPTION 'The channel % is full for key %.', quote_literal(channel), quote_literal(key)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'A policy bounds its max_size.';
    END IF;
    RETURN stored.id;
END $$;

CREATE OR REPLACE FUNCTION pgqueue_publish(
    topic text, payload jsonb DEFAULT NULL, key text DEFAULT '', metadata jsonb DEFAULT '{}')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF topic IS NULL OR topic !~ '^[^.*\s]+(\.[^.*\s]+)*$' OR octet_length(topic) > 200 THEN
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
END $$;

DROP FUNCTION pgqueue_as_instant_v1(text, timestamptz);
DROP FUNCTION pgqueue_as_duration_v1(text, interval);
DROP FUNCTION pgqueue_as_name_v1(text, text, integer);
DROP FUNCTION pgqueue_instant_of_v1(text);
