DROP TRIGGER pgqueue_channel_changed ON pgqueue_channel;
DROP TRIGGER pgqueue_policy_changed ON pgqueue_policy;
DROP FUNCTION pgqueue_room_v1;
DROP FUNCTION pgqueue_keep_order_v1;
DROP FUNCTION pgqueue_wait_v1;
DROP FUNCTION pgqueue_bucket_v1;
DROP FUNCTION pgqueue_channel_changed_v1;
DROP FUNCTION pgqueue_policy_changed_v1;
DROP FUNCTION pgqueue_is_governed_v1;
