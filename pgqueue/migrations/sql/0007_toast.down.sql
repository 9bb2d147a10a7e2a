ALTER TABLE pgqueue_message RESET (
    toast.autovacuum_vacuum_scale_factor,
    toast.autovacuum_vacuum_threshold,
    toast.autovacuum_vacuum_insert_scale_factor,
    toast.autovacuum_vacuum_insert_threshold,
    toast.autovacuum_vacuum_cost_delay
);
