ALTER TABLE pgqueue_message RESET (
    fillfactor,
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold,
    autovacuum_vacuum_insert_scale_factor,
    autovacuum_vacuum_insert_threshold,
    autovacuum_analyze_scale_factor,
    autovacuum_analyze_threshold,
    autovacuum_vacuum_cost_delay
);
ALTER TABLE pgqueue_worker RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE pgqueue_duty RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
