ALTER FUNCTION pgqueue_enqueue_v1 RESET jit;
ALTER FUNCTION pgqueue_enqueue_now_v1 RESET jit;
ALTER FUNCTION pgqueue_room_v1 RESET jit;
ALTER FUNCTION pgqueue_end_v1 RESET jit;
ALTER FUNCTION pgqueue_end_v2 RESET jit;
ALTER FUNCTION pgqueue_trail_v1 RESET jit;
