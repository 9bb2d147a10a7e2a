ALTER TABLE pgqueue_duty DROP CONSTRAINT IF EXISTS pgqueue_duty_upto;
ALTER TABLE pgqueue_message DROP CONSTRAINT IF EXISTS pgqueue_message_lengths;
