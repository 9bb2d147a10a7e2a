DROP FUNCTION pgqueue_comparable_v1;
DROP FUNCTION pgqueue_member_v1;
DROP FUNCTION pgqueue_alternatives_v1;
DROP FUNCTION pgqueue_number_v1;
