-- Read by each dispatch, and written when a worker declares it.
ALTER TABLE pgqueue_subscription SET (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
