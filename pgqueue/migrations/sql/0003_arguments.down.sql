DROP FUNCTION pgqueue_instant_of_v1;
DROP FUNCTION pgqueue_as_name_v1;
DROP FUNCTION pgqueue_as_duration_v1;
DROP FUNCTION pgqueue_as_instant_v1;
