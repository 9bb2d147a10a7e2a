-- A tally lives for some seconds, and a total is written as often: both are kept to a few pages.
ALTER TABLE pgqueue_tally SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_threshold = -1
);
ALTER TABLE pgqueue_total SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE pgqueue_statistic SET (fillfactor = 70);

-- Each heartbeat of a process updates its row.
ALTER TABLE pgqueue_tally_batch SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The values that the tables take, as in 0001_bounds.

ALTER TABLE pgqueue_tally
    ADD CONSTRAINT pgqueue_tally_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
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
           AND 0 <= ALL (runs) AND 1000000000000 >= ALL (runs)),
    ADD CONSTRAINT pgqueue_tally_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END);
ALTER TABLE pgqueue_tally_batch
    ADD CONSTRAINT pgqueue_tally_batch_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
    ADD CONSTRAINT pgqueue_tally_batch_numbers
    CHECK (number BETWEEN 0 AND 4611686018427387904);
ALTER TABLE pgqueue_statistic
    ADD CONSTRAINT pgqueue_statistic_times
    CHECK (at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
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
           AND 0 <= ALL (runs) AND 1000000000000000 >= ALL (runs)),
    ADD CONSTRAINT pgqueue_statistic_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END);
ALTER TABLE pgqueue_total
    ADD CONSTRAINT pgqueue_total_times
    CHECK (counted_at BETWEEN '0001-01-03 00:00+00' AND '9999-12-29 00:00+00'),
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
           AND 0 <= ALL (runs) AND 1000000000000000000 >= ALL (runs)),
    ADD CONSTRAINT pgqueue_total_arrays
    CHECK (CASE WHEN array_ndims(waits) > 1 THEN false ELSE array_position(waits, NULL) IS NULL END
           AND CASE WHEN array_ndims(runs) > 1 THEN false ELSE array_position(runs, NULL) IS NULL END);
