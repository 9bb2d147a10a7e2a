DROP FUNCTION pgqueue_end_v1;
