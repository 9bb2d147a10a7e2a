DROP FUNCTION pgqueue_end_v2(bigint[], text);
DROP FUNCTION pgqueue_operate_end_v2(bigint[], text);
DROP FUNCTION pgqueue_take_signal_v1(bigint, integer, uuid, text, integer, text, text[], jsonb);
DROP FUNCTION pgqueue_store_step_v1(
    bigint, integer, uuid, text, integer, text, text, text, jsonb, jsonb, integer, interval, timestamptz, interval, jsonb);
DROP FUNCTION pgqueue_store_values_v1(bigint, integer, jsonb);
DROP FUNCTION pgqueue_lock_run_v1(bigint, integer, uuid);
DROP FUNCTION pgqueue_produce_signalled_v1(bigint, text, text);
DROP FUNCTION pgqueue_produce_signal_v1(bigint, text, jsonb, text, bigint);
DROP FUNCTION pgqueue_signalled_v1(bigint, text, text);
DROP FUNCTION pgqueue_signal_v1(bigint, text, jsonb, text, bigint);
DROP FUNCTION pgqueue_take_steps_v1(bigint, text, jsonb);
DELETE FROM pgqueue_bell WHERE woken IS NOT NULL;
ALTER TABLE pgqueue_bell DROP CONSTRAINT pgqueue_bell_woken;
