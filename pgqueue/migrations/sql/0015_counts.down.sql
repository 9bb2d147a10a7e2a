ALTER TABLE pgqueue_tally_batch RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
