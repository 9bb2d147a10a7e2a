-- Before PostgreSQL 18 a plan without an index is taken as 10^10 more expensive under `enable_seqscan = off`. Where JIT
-- compilation is on, as it is by default, PostgreSQL then compiled these functions' statements on each call: an enqueue
-- took 90 ms in place of 0.3.
ALTER FUNCTION pgqueue_enqueue_v1 SET jit = off;
ALTER FUNCTION pgqueue_enqueue_now_v1 SET jit = off;
ALTER FUNCTION pgqueue_room_v1 SET jit = off;
ALTER FUNCTION pgqueue_end_v1 SET jit = off;
ALTER FUNCTION pgqueue_end_v2 SET jit = off;
ALTER FUNCTION pgqueue_trail_v1 SET jit = off;
