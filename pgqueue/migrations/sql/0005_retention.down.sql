ALTER TABLE pgqueue_purged RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
