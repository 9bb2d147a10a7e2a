ALTER TABLE pgqueue_subscription RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
