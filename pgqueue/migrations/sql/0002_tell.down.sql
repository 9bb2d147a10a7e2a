DROP FUNCTION pgqueue_tell_v1(text);
DROP FUNCTION pgqueue_tell_promoter_v1(timestamptz);
DROP FUNCTION pgqueue_notifications_v1();
