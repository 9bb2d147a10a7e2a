DROP FUNCTION pgqueue_tell_waiters_v1;
DROP FUNCTION pgqueue_notice_v1;
DROP FUNCTION pgqueue_notifications_v1;
DROP FUNCTION pgqueue_tell_promoter_v1;
DROP FUNCTION pgqueue_tell_v1;
