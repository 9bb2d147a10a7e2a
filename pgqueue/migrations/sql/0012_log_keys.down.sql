DROP FUNCTION pgqueue_publish_if(text, text, bigint, jsonb, jsonb);
DROP FUNCTION pgqueue_produce_condition_v1(text, text, text[], text[], bigint[], boolean[]);
DROP FUNCTION pgqueue_unmet_condition_v1(text, text, text[], text[], bigint[], boolean[]);
