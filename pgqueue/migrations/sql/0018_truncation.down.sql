ALTER TABLE pgqueue_message RESET (vacuum_truncate, toast.vacuum_truncate);
ALTER TABLE pgqueue_event_inbox RESET (vacuum_truncate, toast.vacuum_truncate);
