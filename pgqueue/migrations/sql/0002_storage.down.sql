ALTER TABLE pgqueue_blocked RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay
);
ALTER TABLE pgqueue_message RESET (
    fillfactor,
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold,
    autovacuum_vacuum_insert_scale_factor,
    autovacuum_vacuum_insert_threshold,
    autovacuum_analyze_scale_factor,
    autovacuum_analyze_threshold,
    autovacuum_vacuum_cost_delay,
    toast.autovacuum_vacuum_scale_factor,
    toast.autovacuum_vacuum_threshold,
    toast.autovacuum_vacuum_insert_scale_factor,
    toast.autovacuum_vacuum_insert_threshold,
    toast.autovacuum_vacuum_cost_delay
);
ALTER INDEX pgqueue_message_running RESET (deduplicate_items);
ALTER TABLE pgqueue_worker RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE pgqueue_duty RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE pgqueue_gate RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE pgqueue_purged RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE pgqueue_lane RESET (
    fillfactor,
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold,
    autovacuum_vacuum_cost_delay
);
ALTER TABLE pgqueue_bell RESET (
    autovacuum_vacuum_scale_factor,
    autovacuum_vacuum_threshold,
    autovacuum_vacuum_insert_threshold,
    autovacuum_vacuum_cost_delay
);
ALTER TABLE pgqueue_waiter RESET (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
