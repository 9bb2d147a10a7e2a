DROP FUNCTION pgqueue_comparable_v1(jsonb);
DROP FUNCTION pgqueue_member_v1(jsonb, int);
DROP FUNCTION pgqueue_alternatives_v1(jsonb, int);
DROP FUNCTION pgqueue_number_v1(text);
