DROP FUNCTION pgqueue_partition_v1;
DROP FUNCTION pgqueue_publish;
DROP FUNCTION pgqueue_publish_v1;
DROP FUNCTION pgqueue_stores_events_v1;
DROP FUNCTION pgqueue_tell_readers_v1;
