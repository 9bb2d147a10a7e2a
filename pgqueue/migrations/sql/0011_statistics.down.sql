ALTER TABLE pgqueue_statistic RESET (fillfactor);
ALTER TABLE pgqueue_total RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
ALTER TABLE pgqueue_tally RESET (
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold,
    autovacuum_vacuum_insert_threshold
);
