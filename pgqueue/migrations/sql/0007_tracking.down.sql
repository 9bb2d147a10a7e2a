DROP FUNCTION pgqueue_trail_v1(oid, text[], text, integer);
DROP FUNCTION pgqueue_row_key_v1(jsonb, text[]);
DROP FUNCTION pgqueue_primary_key_v1(oid);
DROP FUNCTION pgqueue_acting_v1();
DROP FUNCTION pgqueue_diff_v1(jsonb, jsonb);
