ALTER INDEX pgqueue_message_running RESET (deduplicate_items);
