DROP FUNCTION pgqueue_work_resume_v1(integer);
DROP FUNCTION pgqueue_work_pause_v1(text[], interval[]);
DROP TRIGGER pgqueue_channel_resumed ON pgqueue_channel;
DROP FUNCTION pgqueue_channel_resumed_v1();
ALTER TABLE pgqueue_lane DROP CONSTRAINT pgqueue_lane_pause;
ALTER TABLE pgqueue_channel DROP CONSTRAINT pgqueue_channel_times;
