-- Only flows are found in history by this: other rows cost nothing.
CREATE INDEX pgqueue_history_flow ON pgqueue_history (flow_id) WHERE flow_id IS NOT NULL;

-- What waits is written at each step and soon deleted, as a bell is.
ALTER TABLE pgqueue_blocked SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
