DROP FUNCTION pgqueue_begin_flow_v2(bigint, text, bigint, jsonb);
DROP FUNCTION pgqueue_produce_flow_v2(bigint, text, bigint, jsonb);
ALTER TABLE pgqueue_flow DROP CONSTRAINT pgqueue_flow_json;
