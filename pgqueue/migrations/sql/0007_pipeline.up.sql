-- The values that the tables take, as in 0001_bounds.

ALTER TABLE pgqueue_export
    ADD CONSTRAINT pgqueue_export_times
    CHECK (exported_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_export_numbers
    CHECK (batch BETWEEN -1 AND 4611686018427387904
           AND txid BETWEEN 0 AND 4611686018427387904
           AND message_id BETWEEN 0 AND 4611686018427387904
           AND event_batch BETWEEN -1 AND 4611686018427387904
           AND event_position BETWEEN 0 AND 4611686018427387904),
    ADD CONSTRAINT pgqueue_export_names
    CHECK (octet_length(database) <= 100);
ALTER TABLE pgqueue_write
    ADD CONSTRAINT pgqueue_write_times
    CHECK (committed_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_write_numbers
    CHECK (rows >= 0);
ALTER TABLE pgqueue_staged
    ADD CONSTRAINT pgqueue_staged_times
    CHECK (run_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND expires_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_staged_numbers
    CHECK (priority BETWEEN -100 AND 100
           AND max_attempts >= 1),
    ADD CONSTRAINT pgqueue_staged_json
    CHECK (jsonb_typeof(metadata) = 'object');
ALTER TABLE pgqueue_backfill
    ADD CONSTRAINT pgqueue_backfill_times
    CHECK (created_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'
           AND ended_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_backfill_numbers
    CHECK (place >= 0
           AND number >= 0
           AND done >= 0
           AND total >= 0),
    ADD CONSTRAINT pgqueue_backfill_json
    CHECK (jsonb_typeof(attempts) = 'array');
