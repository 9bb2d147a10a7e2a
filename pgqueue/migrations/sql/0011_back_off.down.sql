DROP FUNCTION pgqueue_work_resume_v1(integer);
DROP TRIGGER pgqueue_channel_resumed ON pgqueue_channel;
DROP FUNCTION pgqueue_channel_resumed_v1();
ALTER TABLE pgqueue_channel DROP CONSTRAINT pgqueue_channel_times;
