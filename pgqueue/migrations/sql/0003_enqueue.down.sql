DROP FUNCTION pgqueue_remember_v1;
DROP FUNCTION pgqueue_reserve_v1;
DROP FUNCTION pgqueue_enqueue_now_v1;
DROP FUNCTION pgqueue_enqueue;
DROP FUNCTION pgqueue_store_once_v1;
DROP FUNCTION pgqueue_enqueue_v1;
DROP FUNCTION pgqueue_stores_messages_v1;
