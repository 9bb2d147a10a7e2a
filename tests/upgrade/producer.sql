-- Statements that a producer of the first version sends, word by word (pgqueue/engine/enqueue.sql).

-- name: enqueue
SELECT id, state, due_at, created_at, is_told, came_of
FROM pgqueue_enqueue_v1(
    'default', '', 'tests.upgrade.tasks.add', '{"args": [1, 20], "kwargs": {}}'::jsonb, NULL, '{}'::jsonb, NULL::jsonb,
    0::smallint, 5, NULL, NULL, NULL, NULL,
    NULL, false, NULL, NULL, false, NULL, NULL,
    NULL, false)

-- name: enqueue_now
SELECT pgqueue_enqueue_now_v1(
    'default', '', 'tests.upgrade.tasks.add', '{"args": [2, 20], "kwargs": {}}'::jsonb, NULL, '{}'::jsonb, NULL::jsonb,
    0::smallint, 5, NULL, NULL, NULL)

-- name: enqueue_ordered
SELECT id, state, due_at, created_at, is_told, came_of
FROM pgqueue_enqueue_v1(
    'mail', 'ada', 'tests.upgrade.tasks.add', '{"args": [3, 20], "kwargs": {}}'::jsonb, NULL, '{}'::jsonb, NULL::jsonb,
    0::smallint, 5, NULL, NULL, NULL, NULL,
    NULL, true, 'once', NULL, false, NULL, NULL,
    NULL, false)

-- name: from_sql
SELECT pgqueue_enqueue('tests.upgrade.tasks.add', '{"args": [4, 20]}', run_after => '1 millisecond', priority => 1)
