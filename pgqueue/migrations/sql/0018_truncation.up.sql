-- A vacuum cuts the empty end of a table off under an ACCESS EXCLUSIVE lock. A standby replays that lock: it waits for
-- transactions that have read the table, or ends them. These two are empty again and again, and programs read them on a
-- standby. New rows use the free pages. `VACUUM (TRUNCATE)` cuts them off on request.
ALTER TABLE pgqueue_message SET (vacuum_truncate = off, toast.vacuum_truncate = off);
ALTER TABLE pgqueue_event_inbox SET (vacuum_truncate = off, toast.vacuum_truncate = off);
