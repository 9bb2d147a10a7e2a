-- A tally lives for some seconds, and a total is written as often: both are kept to a few pages.
ALTER TABLE pgqueue_tally SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_threshold = -1
);
ALTER TABLE pgqueue_total SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE pgqueue_statistic SET (fillfactor = 70);
