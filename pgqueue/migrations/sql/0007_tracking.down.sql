-- These are of 0029, which leaves them to the triggers of tracked tables.
DROP FUNCTION IF EXISTS pgqueue_publish_behind_v1(text, text[], bigint, bigint);
DROP FUNCTION IF EXISTS pgqueue_nested_v1(text, text[], bigint, bigint);
DROP FUNCTION IF EXISTS pgqueue_nested_keys_v1(text, bigint, bigint);
DROP FUNCTION IF EXISTS pgqueue_is_own_v1(xid);
DROP FUNCTION IF EXISTS pgqueue_note_nested_v1(integer, bigint, bigint);
DROP FUNCTION IF EXISTS pgqueue_nested_since_v1(integer);
DROP FUNCTION IF EXISTS pgqueue_rows_now_v1(oid, text[]);
DROP FUNCTION IF EXISTS pgqueue_row_as_json_v1(oid);
DROP FUNCTION IF EXISTS pgqueue_row_v1(text[], jsonb[]);
DROP FUNCTION IF EXISTS pgqueue_value_v1(anyelement);
DROP FUNCTION pgqueue_trail_v1(oid, text[], text, integer);
DROP FUNCTION pgqueue_row_key_v1(jsonb, text[]);
DROP FUNCTION pgqueue_primary_key_v1(oid);
DROP FUNCTION pgqueue_acting_v1();
DROP FUNCTION pgqueue_diff_v1(jsonb, jsonb);
