DROP FUNCTION pgqueue_enqueue_now_v1(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval, bigint);
DROP FUNCTION pgqueue_enqueue(
    text, jsonb, text, text, integer, timestamptz, interval, timestamptz, interval, integer, boolean, text, interval,
    boolean, interval, jsonb, bytea);
DROP FUNCTION pgqueue_enqueue_v1(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval, timestamptz, interval,
    interval, boolean, text, interval, boolean, bigint, bigint);
DROP FUNCTION pgqueue_store_once_v1(pgqueue_message, interval, boolean);
DROP FUNCTION pgqueue_room_v1(text, text);
DROP FUNCTION pgqueue_keep_order_v1(text, text);
