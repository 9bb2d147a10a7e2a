DROP FUNCTION pgqueue_block_v1;
DROP FUNCTION pgqueue_begin_flow_v1;
DROP FUNCTION pgqueue_reserve_flow_v1;
