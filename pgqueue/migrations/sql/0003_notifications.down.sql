DROP FUNCTION pgqueue_tell_waiters_v1(bigint);
DROP FUNCTION pgqueue_notice_v1(text, bigint, text, text);
DROP FUNCTION pgqueue_tell_promoter_v1(timestamptz);
DROP FUNCTION pgqueue_tell_v1(text);
DROP FUNCTION pgqueue_notifications_v1();
