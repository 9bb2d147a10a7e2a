-- The tables refuse values that clients can't read, or that counters can't go on from. A time must be in Python's years,
-- 1 to 9999, with two days to spare: clients read it in their own time zone. So `infinity` is refused. A number leaves room
-- for additions. JSON that our statements look into must have the form that they expect.
--
-- A CHECK that is NULL, as for an absent value, holds.

-- Return what a caller gave as a time, or say which of its arguments can't be one.
CREATE FUNCTION pgqueue_as_instant_v1(argument text, value timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF value NOT BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN
        RAISE EXCEPTION '% must be a finite time between the years 1 and 9999, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- The same for a duration. An infinite one, as PostgreSQL 17 knows it, is longer than any other.
CREATE FUNCTION pgqueue_as_duration_v1(argument text, value interval) RETURNS interval
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF value NOT BETWEEN interval '-36525 days' AND interval '36525 days' THEN
        RAISE EXCEPTION '% must be a hundred years at most, and is %.', argument, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- The same for text.
CREATE FUNCTION pgqueue_as_name_v1(argument text, value text, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(value) > most THEN
        RAISE EXCEPTION '% may be % bytes long at most, and has %.', argument, most, octet_length(value)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN value;
END $$;

-- Return the time that a text says; NULL: it says none. What a JSON document holds may be anything.
CREATE FUNCTION pgqueue_instant_of_v1(said text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN said::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- As before, but what can't be stored is refused by the name of its argument, and `infinity` means that a message
-- never expires.
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
    IF channel = '' THEN
        RAISE EXCEPTION 'channel must be a name.' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority must be from -100 to 100, and is %.', priority
            USING ERRCODE = 'invalid_parameter_value';
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
        pgqueue_as_name_v1('task', task, 1000), payload, body, metadata, NULL, priority::smallint, max_attempts,
        pgqueue_as_instant_v1('run_at', run_at), pgqueue_as_duration_v1('run_after', run_after),
        pgqueue_as_instant_v1('expires_at', nullif(expires_at, 'infinity')),
        pgqueue_as_duration_v1('expires_after', expires_after), pgqueue_as_duration_v1('held_for', held_for),
        ordered, pgqueue_as_name_v1('dedupe_key', dedupe_key, 1000),
        pgqueue_as_duration_v1('dedupe_for', dedupe_for), replaces, NULL, NULL);
    IF stored.came_of = 'full' THEN
        RAISE EXCEPTION 'The channel % is full for key %.', quote_literal(channel), quote_literal(key)
            USING ERRCODE = 'program_limit_exceeded', HINT = 'A policy bounds its max_size.';
    END IF;
    RETURN stored.id;
END $$;

-- As before, without backslashes: where a session's standard_conforming_strings is off, they are lost.
CREATE OR REPLACE FUNCTION pgqueue_publish(
    topic text, payload jsonb DEFAULT NULL, key text DEFAULT '', metadata jsonb DEFAULT '{}')
RETURNS void LANGUAGE plpgsql AS $publish$
BEGIN
    -- White space is as Python has it, whatever the collation says.
    IF topic IS NULL OR octet_length(topic) > 200 OR topic !~
       $re$^[^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+([.][^.*[:space:]\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)*$$re$
    THEN
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
END $publish$;

-- Mend the rows that are there. A message that clients can't read becomes a dead letter with an error; a message that only
-- expires at `infinity` never expires. Times of other tables are moved to the nearest time that can be read.
UPDATE pgqueue_message SET expires_at = NULL WHERE expires_at = 'infinity';

WITH dead AS (
    UPDATE pgqueue_message
    SET state = 'dead',
        worker_id = NULL,
        lease_until = NULL,
        run_at = greatest(least(run_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
        created_at = greatest(least(created_at, '9999-12-29 00:00+00'), '0001-01-03 00:00+00'),
        expires_at = CASE WHEN expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN expires_at END,
        started_at = CASE WHEN started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN started_at END,
        -- Its retention counts from then.
        claimed_at = CASE WHEN claimed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00' THEN claimed_at
                          ELSE statement_timestamp() END,
        cancel_requested_at = NULL,
        attempt = greatest(attempt, 0),
        failures = least(greatest(failures, 0), 2147483646) + 1,
        lost = greatest(lost, 0),
        max_attempts = greatest(max_attempts, 1),
        channel = CASE WHEN channel = '' THEN 'unreadable' WHEN octet_length(channel) > 200 THEN left(channel, 50)
                       ELSE channel END,
        key = CASE WHEN octet_length(key) > 1000 THEN left(key, 250) ELSE key END,
        task = CASE WHEN octet_length(task) > 1000 THEN left(task, 250) ELSE task END,
        dedupe_key = NULL,
        metadata = CASE WHEN jsonb_typeof(metadata) = 'object' THEN metadata
                        ELSE jsonb_build_object('unreadable', metadata) END,
        errors = CASE WHEN jsonb_typeof(errors) = 'array' THEN errors ELSE '[]' END
                 || jsonb_build_object(
                        'attempt', greatest(attempt, 0), 'worker', '', 'at', statement_timestamp(),
                        'class', 'pgqueue.exceptions.UnreadableMessage',
                        'message', format('unreadable: run_at was %s, expires_at %s, created_at %s, attempt %s, failures %s, '
                                          'lost %s, max_attempts %s', run_at, expires_at, created_at, attempt, failures, lost,
                                          max_attempts),
                        'traceback', '')
    WHERE NOT (
        run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND coalesce(expires_at, run_at) BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND coalesce(lease_until, run_at) BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND coalesce(claimed_at, run_at) BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND coalesce(started_at, run_at) BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND coalesce(cancel_requested_at, run_at) BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
        AND attempt >= 0 AND failures >= 0 AND lost >= 0 AND max_attempts >= 0
        AND octet_length(channel) BETWEEN 1 AND 200 AND octet_length(key) <= 1000 AND octet_length(task) <= 1000
        AND coalesce(octet_length(dedupe_key) <= 1000, true)
        AND jsonb_typeof(metadata) = 'object' AND jsonb_typeof(errors) = 'array')
    RETURNING id, channel, key, governed, flow_id
)
INSERT INTO pgqueue_bell (channel, key, ended)
SELECT DISTINCT channel, key, NULL::bigint[] FROM dead WHERE governed
UNION ALL
SELECT channel, NULL, array_agg(id) FROM dead WHERE flow_id IS NOT NULL GROUP BY channel;

DO $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT c.oid::regclass AS name, quote_ident(a.attname) AS attribute,
               a.attname = 'expires_at' AND NOT a.attnotnull AS may_be_none
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'pgqueue_message'::regclass)
          AND c.relname ~ '^pgqueue_' AND c.relname !~ '^pgqueue_(message|(history|event)_[0-9]+)$'
          AND c.relkind = 'r'
          AND a.atttypid = 'timestamptz'::regtype
    LOOP
        EXECUTE format(
            'UPDATE %1$s SET %2$s = CASE WHEN NOT %3$L OR %2$s <> ''infinity''
                                         THEN greatest(least(%2$s, ''9999-12-29 00:00+00''), ''0001-01-03 00:00+00'') END
             WHERE %2$s NOT BETWEEN ''0001-01-03 00:00+00'' AND ''9999-12-29 00:00+00''',
            each.name, each.attribute, each.may_be_none);
    END LOOP;
END $$;

ALTER TABLE pgqueue_backfill
    ADD CONSTRAINT pgqueue_backfill_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ended_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_backfill_numbers
    CHECK (place >= 0
           AND number >= 0
           AND done >= 0
           AND total >= 0) NOT VALID,
    ADD CONSTRAINT pgqueue_backfill_json
    CHECK (jsonb_typeof(attempts) = 'array') NOT VALID;
ALTER TABLE pgqueue_bell
    ADD CONSTRAINT pgqueue_bell_numbers
    CHECK (id > 0) NOT VALID,
    ADD CONSTRAINT pgqueue_bell_names
    CHECK (octet_length(channel) <= 200 AND coalesce(octet_length(key) <= 1000, true)) NOT VALID,
    ADD CONSTRAINT pgqueue_bell_arrays
    CHECK (CASE WHEN array_ndims(ended) > 1 THEN false ELSE array_position(ended, NULL) IS NULL END) NOT VALID;
ALTER TABLE pgqueue_cursor
    ADD CONSTRAINT pgqueue_cursor_times
    CHECK (lease_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND retry_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND updated_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND begun_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_cursor_numbers
    CHECK (partition >= 0
           AND position BETWEEN 0 AND 4611686018427387904
           AND suspect BETWEEN 0 AND 4611686018427387904
           AND lost BETWEEN 0 AND 1000000000
           AND failures >= 0) NOT VALID;
ALTER TABLE pgqueue_dedupe
    ADD CONSTRAINT pgqueue_dedupe_times
    CHECK (expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_duty
    ADD CONSTRAINT pgqueue_duty_times
    CHECK (due_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ran_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_event
    ADD CONSTRAINT pgqueue_event_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_event_numbers
    CHECK (position BETWEEN 0 AND 4611686018427387904) NOT VALID,
    ADD CONSTRAINT pgqueue_event_json
    CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE pgqueue_event_inbox
    ADD CONSTRAINT pgqueue_event_inbox_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_event_inbox_numbers
    CHECK (id > 0) NOT VALID,
    ADD CONSTRAINT pgqueue_event_inbox_names
    CHECK (octet_length(topic) <= 200 AND octet_length(key) <= 1000) NOT VALID,
    ADD CONSTRAINT pgqueue_event_inbox_json
    CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE pgqueue_export
    ADD CONSTRAINT pgqueue_export_times
    CHECK (exported_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_export_numbers
    CHECK (batch BETWEEN -1 AND 4611686018427387904
           AND txid BETWEEN 0 AND 4611686018427387904
           AND message_id BETWEEN 0 AND 4611686018427387904
           AND event_batch BETWEEN -1 AND 4611686018427387904
           AND event_position BETWEEN 0 AND 4611686018427387904) NOT VALID;
ALTER TABLE pgqueue_flow
    ADD CONSTRAINT pgqueue_flow_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ended_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_flow_numbers
    CHECK (id BETWEEN 1 AND 4611686018427387904) NOT VALID;
ALTER TABLE pgqueue_gate
    ADD CONSTRAINT pgqueue_gate_times
    CHECK (tat BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND wake_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_group
    ADD CONSTRAINT pgqueue_group_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_history
    ADD CONSTRAINT pgqueue_history_times
    CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND claimed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND cancel_requested_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND finished_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_history_numbers
    CHECK (id BETWEEN 1 AND 4611686018427387904
           AND attempt >= 0
           AND failures >= 0
           AND lost >= 0
           AND max_attempts >= 0
           AND txid BETWEEN 0 AND 4611686018427387904) NOT VALID,
    ADD CONSTRAINT pgqueue_history_json
    CHECK (jsonb_typeof(metadata) = 'object' AND jsonb_typeof(errors) = 'array') NOT VALID;
ALTER TABLE pgqueue_lane
    ADD CONSTRAINT pgqueue_lane_times
    CHECK (turn_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND tat BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND wake_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_log_floor
    ADD CONSTRAINT pgqueue_log_floor_numbers
    CHECK (position BETWEEN 0 AND 4611686018427387904) NOT VALID;
ALTER TABLE pgqueue_message
    ADD CONSTRAINT pgqueue_message_times
    CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND lease_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND claimed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND cancel_requested_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_message_numbers
    CHECK (id BETWEEN 1 AND 4611686018427387904
           AND attempt >= 0
           AND failures >= 0
           AND lost >= 0
           AND max_attempts >= 0) NOT VALID,
    ADD CONSTRAINT pgqueue_message_names
    CHECK (octet_length(channel) BETWEEN 1 AND 200 AND octet_length(key) <= 1000 AND octet_length(task) <= 1000
           AND coalesce(octet_length(dedupe_key) <= 1000, true)) NOT VALID,
    ADD CONSTRAINT pgqueue_message_json
    CHECK (jsonb_typeof(metadata) = 'object' AND jsonb_typeof(errors) = 'array') NOT VALID;
ALTER TABLE pgqueue_operation
    ADD CONSTRAINT pgqueue_operation_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_operation_numbers
    CHECK (message_id > 0) NOT VALID;
ALTER TABLE pgqueue_purged
    ADD CONSTRAINT pgqueue_purged_times
    CHECK (until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_purged_numbers
    CHECK (keep BETWEEN interval '0' AND interval '36525 days') NOT VALID;
ALTER TABLE pgqueue_reader
    ADD CONSTRAINT pgqueue_reader_times
    CHECK (last_seen BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND notify_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND feed_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID;
ALTER TABLE pgqueue_schedule
    ADD CONSTRAINT pgqueue_schedule_times
    CHECK (next_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ticked_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND seen_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_schedule_numbers
    CHECK (priority BETWEEN -100 AND 100) NOT VALID,
    ADD CONSTRAINT pgqueue_schedule_names
    CHECK (octet_length(name) >= 1) NOT VALID,
    ADD CONSTRAINT pgqueue_schedule_arrays
    CHECK (CASE WHEN array_ndims(superseded) > 1 THEN false ELSE array_position(superseded, NULL) IS NULL END) NOT VALID;
ALTER TABLE pgqueue_staged
    ADD CONSTRAINT pgqueue_staged_times
    CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_staged_numbers
    CHECK (priority BETWEEN -100 AND 100
           AND max_attempts >= 1) NOT VALID,
    ADD CONSTRAINT pgqueue_staged_json
    CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE pgqueue_statistic
    ADD CONSTRAINT pgqueue_statistic_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_statistic_numbers
    CHECK (succeeded BETWEEN 0 AND 1000000000000000
           AND failed BETWEEN 0 AND 1000000000000000
           AND dead BETWEEN 0 AND 1000000000000000
           AND deferred BETWEEN 0 AND 1000000000000000
           AND discarded BETWEEN 0 AND 1000000000000000
           AND cancelled BETWEEN 0 AND 1000000000000000
           AND lost BETWEEN 0 AND 1000000000000000
           AND released BETWEEN 0 AND 1000000000000000
           AND waited BETWEEN -1e21 AND 1e21
           AND ran BETWEEN -1e21 AND 1e21
           AND array_lower(waits, 1) = 1 AND cardinality(waits) = 24
           AND 0 <= ALL (waits) AND 1000000000000000 >= ALL (waits)
           AND array_lower(runs, 1) = 1 AND cardinality(runs) = 24
           AND 0 <= ALL (runs) AND 1000000000000000 >= ALL (runs)) NOT VALID,
    ADD CONSTRAINT pgqueue_statistic_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END) NOT VALID;
ALTER TABLE pgqueue_subscription
    ADD CONSTRAINT pgqueue_subscription_times
    CHECK (expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND seen_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_subscription_numbers
    CHECK (position BETWEEN 0 AND 4611686018427387904
           AND expires_after BETWEEN interval '0' AND interval '36525 days') NOT VALID,
    ADD CONSTRAINT pgqueue_subscription_arrays
    CHECK (CASE WHEN array_ndims(topics) > 1 THEN false ELSE array_position(topics, NULL) IS NULL END
           AND CASE WHEN array_ndims(superseded) > 1 THEN false ELSE array_position(superseded, NULL) IS NULL END
           AND CASE WHEN array_ndims(exact) > 1 THEN false ELSE array_position(exact, NULL) IS NULL END) NOT VALID,
    ADD CONSTRAINT pgqueue_subscription_json
    CHECK (jsonb_typeof("where") = 'object' AND jsonb_typeof(metadata) = 'object' AND jsonb_typeof(vars) = 'object') NOT VALID;
ALTER TABLE pgqueue_tally
    ADD CONSTRAINT pgqueue_tally_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_tally_numbers
    CHECK (succeeded BETWEEN 0 AND 1000000000000
           AND failed BETWEEN 0 AND 1000000000000
           AND dead BETWEEN 0 AND 1000000000000
           AND deferred BETWEEN 0 AND 1000000000000
           AND discarded BETWEEN 0 AND 1000000000000
           AND cancelled BETWEEN 0 AND 1000000000000
           AND lost BETWEEN 0 AND 1000000000000
           AND released BETWEEN 0 AND 1000000000000
           AND waited BETWEEN -1e18 AND 1e18
           AND ran BETWEEN -1e18 AND 1e18
           AND array_lower(waits, 1) = 1 AND cardinality(waits) = 24
           AND 0 <= ALL (waits) AND 1000000000000 >= ALL (waits)
           AND array_lower(runs, 1) = 1 AND cardinality(runs) = 24
           AND 0 <= ALL (runs) AND 1000000000000 >= ALL (runs)) NOT VALID,
    ADD CONSTRAINT pgqueue_tally_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END) NOT VALID;
ALTER TABLE pgqueue_tally_batch
    ADD CONSTRAINT pgqueue_tally_batch_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_tally_batch_numbers
    CHECK (number BETWEEN 0 AND 4611686018427387904) NOT VALID;
ALTER TABLE pgqueue_total
    ADD CONSTRAINT pgqueue_total_times
    CHECK (counted_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_total_numbers
    CHECK (succeeded BETWEEN 0 AND 1000000000000000000
           AND failed BETWEEN 0 AND 1000000000000000000
           AND dead BETWEEN 0 AND 1000000000000000000
           AND deferred BETWEEN 0 AND 1000000000000000000
           AND discarded BETWEEN 0 AND 1000000000000000000
           AND cancelled BETWEEN 0 AND 1000000000000000000
           AND lost BETWEEN 0 AND 1000000000000000000
           AND released BETWEEN 0 AND 1000000000000000000
           AND waited BETWEEN -1e24 AND 1e24
           AND ran BETWEEN -1e24 AND 1e24
           AND array_lower(waits, 1) = 1 AND cardinality(waits) = 24
           AND 0 <= ALL (waits) AND 1000000000000000000 >= ALL (waits)
           AND array_lower(runs, 1) = 1 AND cardinality(runs) = 24
           AND 0 <= ALL (runs) AND 1000000000000000000 >= ALL (runs)) NOT VALID,
    ADD CONSTRAINT pgqueue_total_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END) NOT VALID;
ALTER TABLE pgqueue_waiter
    ADD CONSTRAINT pgqueue_waiter_times
    CHECK (until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_waiter_numbers
    CHECK (id > 0) NOT VALID;
ALTER TABLE pgqueue_webhook
    ADD CONSTRAINT pgqueue_webhook_times
    CHECK (failing_since BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_webhook_numbers
    CHECK (failures >= 0
           AND timeout BETWEEN interval '0' AND interval '36525 days') NOT VALID,
    ADD CONSTRAINT pgqueue_webhook_json
    CHECK (jsonb_typeof(rotated) = 'array' AND jsonb_typeof(headers) = 'object') NOT VALID;
ALTER TABLE pgqueue_worker
    ADD CONSTRAINT pgqueue_worker_times
    CHECK (started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND last_seen BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND notify_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_worker_arrays
    CHECK (CASE WHEN array_ndims(channels) > 1 THEN false ELSE array_position(channels, NULL) IS NULL END
           AND CASE WHEN array_ndims(excluded) > 1 THEN false ELSE array_position(excluded, NULL) IS NULL END) NOT VALID,
    ADD CONSTRAINT pgqueue_worker_json
    CHECK (jsonb_typeof(info) = 'object') NOT VALID;
ALTER TABLE pgqueue_write
    ADD CONSTRAINT pgqueue_write_times
    CHECK (committed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00') NOT VALID,
    ADD CONSTRAINT pgqueue_write_numbers
    CHECK (rows >= 0) NOT VALID;

-- History and the log are not read for this: they may be large. Their rows from before go with their partitions, and
-- the statements that read them bear a value that can't be read.
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT k.conrelid::regclass AS name, k.conname AS rule, pg_get_expr(k.conbin, k.conrelid) AS condition
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'pgqueue_message'::regclass)
          AND c.relname ~ '^pgqueue_' AND c.relname !~ '^pgqueue_(history|event)_[0-9]+$'
          AND c.relkind = 'r'
          AND k.contype = 'c' AND NOT k.convalidated
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', each.name, each.rule);
        EXCEPTION WHEN check_violation THEN
            RAISE EXCEPTION 'The table % has rows that % refuses from now on.', each.name, each.rule
                USING ERRCODE = 'check_violation',
                      HINT = format('Correct or delete these rows, and migrate again: SELECT * FROM %s WHERE NOT (%s)',
                                    each.name, each.condition);
        END;
    END LOOP;
END $$;
