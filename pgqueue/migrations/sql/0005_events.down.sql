DROP FUNCTION pgqueue_partition_v1(text, integer);
DROP FUNCTION pgqueue_publish(text, jsonb, text, jsonb);
DROP FUNCTION pgqueue_publish_v1(text, text, jsonb, jsonb);
DROP FUNCTION pgqueue_tell_readers_v1();
DROP TABLE pgqueue_event;
