-- The tables refuse what clients can't read: see 0001_bounds.
ALTER TABLE pgqueue_run_log
    ADD CONSTRAINT pgqueue_run_log_numbers
    CHECK (message_id > 0 AND attempt >= 0);

-- The row of a run is written again every few seconds.
ALTER TABLE pgqueue_run_log SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
