DROP FUNCTION pgqueue_close_breaker_v1(text, text, bigint);
DROP FUNCTION pgqueue_note_failures_v1(text, text, bigint[]);
DROP FUNCTION pgqueue_failed_lately_v1(timestamptz[], interval);
DROP FUNCTION pgqueue_breaker_of_v1(text, text);
