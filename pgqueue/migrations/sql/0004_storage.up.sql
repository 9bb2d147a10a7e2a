-- How the tables are stored and vacuumed.

-- Events are in the inbox for milliseconds; the sequencer reads it from its front.
ALTER TABLE pgqueue_event_inbox SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_insert_threshold = -1,
    toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE pgqueue_reader SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_cursor SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

-- Read by each dispatch, and written when a worker declares it.
ALTER TABLE pgqueue_subscription SET (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
