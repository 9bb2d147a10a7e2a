-- Long payloads are kept in a table of their own, 2 KB a row, which would wait for as many dead rows
-- as the table of messages does: 20 MB.
ALTER TABLE pgqueue_message SET (
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_insert_scale_factor = 0,
    toast.autovacuum_vacuum_insert_threshold = 100000,
    toast.autovacuum_vacuum_cost_delay = 0
);
