-- Every message dies in this table: vacuum it by the count of dead rows, not by the
-- share, and without pausing. Room in each page keeps heartbeats off the indexes.
ALTER TABLE pgqueue_message SET (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0
);
-- Written every second or so, and read by every enqueue: kept to one page.
ALTER TABLE pgqueue_worker SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_duty SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
