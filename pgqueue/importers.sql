-- Jobs in the order in which they came, from after a position on; those that a worker of
-- theirs is just taking are its own.

-- name: is_there
SELECT to_regclass(%(table)s)::text

-- name: django_tasks_db
-- The year 9999 stands for no time there.
SELECT id::text, position, task_path, args_kwargs -> 'args', args_kwargs -> 'kwargs', queue_name, '',
       priority, CASE WHEN run_after < '9999-01-01' THEN run_after END
FROM (SELECT *, to_char(enqueued_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS') || id AS position
      FROM django_tasks_database_dbtaskresult) r
WHERE status = 'READY' AND position > %(after)s
ORDER BY position
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: django_tasks_db_delete
DELETE FROM django_tasks_database_dbtaskresult WHERE id = ANY (%(ids)s::uuid[]) RETURNING id

-- name: procrastinate
SELECT id::text, position, task_name, '[]'::jsonb, args, queue_name, coalesce(lock, ''),
       priority, scheduled_at
FROM (SELECT *, to_char(id, 'FM0000000000000000000') AS position FROM procrastinate_jobs) j
WHERE status = 'todo' AND position > %(after)s
ORDER BY position
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: procrastinate_delete
DELETE FROM procrastinate_jobs WHERE id = ANY (%(ids)s::bigint[]) RETURNING id

-- name: celery_beat
SELECT name FROM django_celery_beat_periodictask WHERE enabled ORDER BY name
