-- The tables refuse values that clients can't read, or that counters can't go on from. A time must be in Python's years,
-- 1 to 9999, with two days to spare: clients read it in their own time zone. So `infinity` is refused. A number leaves room
-- for additions. JSON that our statements look into must have the form that they expect.
--
-- A CHECK that is NULL, as for an absent value, holds.

ALTER TABLE pgqueue_message
    ADD CONSTRAINT pgqueue_message_times
    CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND lease_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND claimed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND cancel_requested_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_message_numbers
    CHECK (id BETWEEN 1 AND 4611686018427387904
           AND attempt >= 0
           AND failures >= 0
           AND lost >= 0
           AND max_attempts >= 0
           AND lease_for BETWEEN interval '-36525 days' AND interval '36525 days'),
    ADD CONSTRAINT pgqueue_message_names
    CHECK (octet_length(channel) BETWEEN 1 AND 200 AND octet_length(key) <= 1000 AND octet_length(task) <= 1000
           AND coalesce(octet_length(dedupe_key) <= 1000, true)),
    ADD CONSTRAINT pgqueue_message_json
    CHECK (jsonb_typeof(metadata) = 'object' AND jsonb_typeof(errors) = 'array');
ALTER TABLE pgqueue_dedupe
    ADD CONSTRAINT pgqueue_dedupe_times
    CHECK (expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_purged
    ADD CONSTRAINT pgqueue_purged_times
    CHECK (until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_purged_numbers
    CHECK (keep BETWEEN interval '0' AND interval '36525 days');
ALTER TABLE pgqueue_log_floor
    ADD CONSTRAINT pgqueue_log_floor_numbers
    CHECK (position BETWEEN 0 AND 4611686018427387904);
ALTER TABLE pgqueue_lane
    ADD CONSTRAINT pgqueue_lane_times
    CHECK (turn_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND tat BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND wake_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_gate
    ADD CONSTRAINT pgqueue_gate_times
    CHECK (tat BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND wake_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_bell
    ADD CONSTRAINT pgqueue_bell_numbers
    CHECK (id > 0),
    ADD CONSTRAINT pgqueue_bell_names
    CHECK (octet_length(channel) <= 200 AND coalesce(octet_length(key) <= 1000, true)),
    ADD CONSTRAINT pgqueue_bell_arrays
    CHECK (CASE WHEN array_ndims(ended) > 1 THEN false ELSE array_position(ended, NULL) IS NULL END);
ALTER TABLE pgqueue_flow
    ADD CONSTRAINT pgqueue_flow_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ended_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_flow_numbers
    CHECK (id BETWEEN 1 AND 4611686018427387904),
    ADD CONSTRAINT pgqueue_flow_json
    CHECK (jsonb_typeof(names) = 'object');
ALTER TABLE pgqueue_waiter
    ADD CONSTRAINT pgqueue_waiter_times
    CHECK (until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_waiter_numbers
    CHECK (id > 0);
ALTER TABLE pgqueue_worker
    ADD CONSTRAINT pgqueue_worker_times
    CHECK (started_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND last_seen BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND notify_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_worker_arrays
    CHECK (CASE WHEN array_ndims(channels) > 1 THEN false ELSE array_position(channels, NULL) IS NULL END
           AND CASE WHEN array_ndims(excluded) > 1 THEN false ELSE array_position(excluded, NULL) IS NULL END),
    ADD CONSTRAINT pgqueue_worker_json
    CHECK (jsonb_typeof(info) = 'object');
ALTER TABLE pgqueue_duty
    ADD CONSTRAINT pgqueue_duty_times
    CHECK (due_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ran_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND upto BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND failing_since BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_schedule
    ADD CONSTRAINT pgqueue_schedule_times
    CHECK (next_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ticked_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND seen_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_schedule_numbers
    CHECK (priority BETWEEN -100 AND 100),
    ADD CONSTRAINT pgqueue_schedule_names
    CHECK (octet_length(name) >= 1),
    ADD CONSTRAINT pgqueue_schedule_arrays
    CHECK (CASE WHEN array_ndims(superseded) > 1 THEN false ELSE array_position(superseded, NULL) IS NULL END);
ALTER TABLE pgqueue_operation
    ADD CONSTRAINT pgqueue_operation_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_operation_numbers
    CHECK (message_id > 0);
