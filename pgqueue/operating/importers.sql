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
-- Celery wants both days to fit where a line has two, cron either. What a priority means is up to
-- the broker there.
SELECT p.name, p.task, p.args, p.kwargs, coalesce(p.queue, ''), p.enabled,
       CASE WHEN c.id IS NULL THEN ''
            ELSE concat_ws(' ', replace(c.minute, ' ', ''), replace(c.hour, ' ', ''), replace(c.day_of_month, ' ', ''),
                           replace(c.month_of_year, ' ', ''), replace(c.day_of_week, ' ', '')) END,
       i.every * ('1 ' || i.period)::interval, coalesce(c.timezone, 'UTC'),
       CASE WHEN p.solar_id IS NOT NULL THEN 'it goes by the sun'
            WHEN p.clocked_id IS NOT NULL THEN 'it runs once, at a time'
            WHEN p.one_off THEN 'it runs once'
            WHEN p.start_time > statement_timestamp() THEN 'it has a start_time to come'
            WHEN p.expires IS NOT NULL OR p.expire_seconds IS NOT NULL THEN 'it expires'
            WHEN p.priority IS NOT NULL THEN 'it has a priority'
            WHEN c.day_of_month NOT LIKE '*%%' AND c.day_of_week NOT LIKE '*%%'
            THEN 'its days of the month and of the week must both fit' END
FROM django_celery_beat_periodictask p
LEFT JOIN django_celery_beat_crontabschedule c ON c.id = p.crontab_id
LEFT JOIN django_celery_beat_intervalschedule i ON i.id = p.interval_id
ORDER BY p.name
FOR UPDATE OF p SKIP LOCKED

-- name: celery_beat_delete
DELETE FROM django_celery_beat_periodictask WHERE name = ANY (%(names)s) RETURNING name

-- name: table_named
-- NULL: wherever the search path finds it.
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p')
  AND CASE WHEN %(schema)s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s END

-- name: aggregates
-- A lock of a message that was never begun is a time that it waits for; any other is a lease of a listener, which
-- is not there any more.
SELECT id::text, position, aggregate_type, aggregate_id, message_type, segment, concurrency, payload::text,
       coalesce(metadata, '{{}}')::text,
       CASE WHEN started_attempts = 0 AND locked_until > statement_timestamp() THEN locked_until END
FROM (SELECT *, to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS') || id AS position FROM {table}) m
WHERE processed_at IS NULL AND abandoned_at IS NULL AND position > %(after)s
ORDER BY position
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- name: aggregates_delete
DELETE FROM {table} WHERE id = ANY (%(ids)s::uuid[]) RETURNING id

-- name: aggregates_abandoned
SELECT aggregate_type, message_type, count(*) FROM {table}
WHERE abandoned_at IS NOT NULL AND processed_at IS NULL
GROUP BY aggregate_type, message_type

-- name: aggregates_ended
SELECT id::text FROM {table}
WHERE (processed_at IS NOT NULL OR abandoned_at IS NOT NULL) AND id::text > %(after)s
ORDER BY id::text
LIMIT %(limit)s
