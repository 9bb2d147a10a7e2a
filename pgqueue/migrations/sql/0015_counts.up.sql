-- Each heartbeat of a process updates its row.
ALTER TABLE pgqueue_tally_batch SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
