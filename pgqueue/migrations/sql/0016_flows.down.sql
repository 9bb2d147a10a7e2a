DROP INDEX pgqueue_history_flow;
ALTER TABLE pgqueue_blocked RESET (
    fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay
);
