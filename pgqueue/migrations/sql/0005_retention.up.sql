-- Nobody read these so far, so nobody minded what stood there.
UPDATE pgqueue_channel SET retention = NULL
WHERE retention NOT BETWEEN interval '1 microsecond' AND interval '36525 days';

-- One row, written every minute: kept to its page.
ALTER TABLE pgqueue_purged SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
