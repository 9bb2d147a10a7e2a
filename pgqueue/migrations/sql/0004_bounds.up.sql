-- The values that the tables take, as in 0001_bounds.

ALTER TABLE pgqueue_event_inbox
    ADD CONSTRAINT pgqueue_event_inbox_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_event_inbox_numbers
    CHECK (id > 0),
    ADD CONSTRAINT pgqueue_event_inbox_names
    CHECK (octet_length(topic) <= 200 AND octet_length(key) <= 1000),
    ADD CONSTRAINT pgqueue_event_inbox_json
    CHECK (jsonb_typeof(metadata) = 'object');
ALTER TABLE pgqueue_reader
    ADD CONSTRAINT pgqueue_reader_times
    CHECK (last_seen BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND notify_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND feed_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_group
    ADD CONSTRAINT pgqueue_group_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00');
ALTER TABLE pgqueue_cursor
    ADD CONSTRAINT pgqueue_cursor_times
    CHECK (lease_until BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND retry_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND updated_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND begun_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_cursor_numbers
    CHECK (partition >= 0
           AND position BETWEEN 0 AND 4611686018427387904
           AND suspect BETWEEN 0 AND 4611686018427387904
           AND lost BETWEEN 0 AND 1000000000
           AND failures >= 0);
ALTER TABLE pgqueue_subscription
    ADD CONSTRAINT pgqueue_subscription_times
    CHECK (expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND seen_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_subscription_numbers
    CHECK (position BETWEEN 0 AND 4611686018427387904
           AND expires_after BETWEEN interval '0' AND interval '36525 days'),
    ADD CONSTRAINT pgqueue_subscription_arrays
    CHECK (CASE WHEN array_ndims(topics) > 1 THEN false ELSE array_position(topics, NULL) IS NULL END
           AND CASE WHEN array_ndims(superseded) > 1 THEN false ELSE array_position(superseded, NULL) IS NULL END
           AND CASE WHEN array_ndims(exact) > 1 THEN false ELSE array_position(exact, NULL) IS NULL END),
    ADD CONSTRAINT pgqueue_subscription_json
    CHECK (jsonb_typeof("where") = 'object' AND jsonb_typeof(metadata) = 'object' AND jsonb_typeof(vars) = 'object');
ALTER TABLE pgqueue_webhook
    ADD CONSTRAINT pgqueue_webhook_times
    CHECK (failing_since BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_webhook_numbers
    CHECK (failures >= 0
           AND timeout BETWEEN interval '0' AND interval '36525 days'),
    ADD CONSTRAINT pgqueue_webhook_json
    CHECK (jsonb_typeof(rotated) = 'array' AND jsonb_typeof(headers) = 'object');

-- Django's own constraint would keep the dispatch from deleting a subscription that has expired.
ALTER TABLE pgqueue_webhook ADD CONSTRAINT pgqueue_webhook_subscription
    FOREIGN KEY (subscription_id) REFERENCES pgqueue_subscription (name) ON DELETE CASCADE;
