DROP FUNCTION pgqueue_enqueue_now_v1(
    text, text, text, jsonb, bytea, jsonb, jsonb, smallint, integer, timestamptz, interval, bigint);
