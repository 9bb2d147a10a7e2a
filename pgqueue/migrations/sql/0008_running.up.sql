-- Whatever runs in a channel without keys has the same entry in this index: PostgreSQL would pack such
-- entries again and again, and each claim took a tenth longer. Entries are as short-lived as runs.
ALTER INDEX pgqueue_message_running SET (deduplicate_items = off);
