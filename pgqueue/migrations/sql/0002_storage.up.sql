-- How the tables are stored and vacuumed.

-- Every message is deleted from this table in the end: vacuum it after a number of dead rows, not a
-- share of the table, and without pausing. Free space in each page keeps heartbeats HOT: they write no
-- index. Long payloads have a TOAST table of their own, 2 KB a row, which is vacuumed earlier: its
-- 10 000 dead rows would be 20 MB.
ALTER TABLE pgqueue_message SET (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_insert_scale_factor = 0,
    toast.autovacuum_vacuum_insert_threshold = 100000,
    toast.autovacuum_vacuum_cost_delay = 0
);
-- All messages that run in a channel without keys have the same entry in this index. PostgreSQL would
-- deduplicate such entries again and again, and each claim took a tenth longer.
ALTER INDEX pgqueue_message_running SET (deduplicate_items = off);

-- Written every second or so, some of them read by every enqueue: kept to one page.
ALTER TABLE pgqueue_worker SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_duty SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_gate SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE pgqueue_purged SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

-- Every claim and every settle of a governed message changes a lane: with free space in its page it
-- stays there.
ALTER TABLE pgqueue_lane SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0
);
-- Bells live for milliseconds.
ALTER TABLE pgqueue_bell SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);
-- Every settle reads which messages are waited for.
ALTER TABLE pgqueue_waiter SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- What waits is written at each step and soon deleted, as a bell is.
ALTER TABLE pgqueue_blocked SET (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
