DROP FUNCTION pgqueue_trail_v1;
