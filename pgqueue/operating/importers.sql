-- Jobs after a position, in the order in which they were enqueued. A job that a worker of the other
-- queue has locked is left to that worker.

-- name: is_there
SELECT to_regclass(%(table)s)::text

-- name: django_tasks_db
-- In this table the year 9999 means that no time is set.
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
-- Where a line has both a day of the month and a day of the week, Celery requires both to fit, cron
-- either one. In Celery, the broker gives a priority its meaning, so it has no counterpart here.
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
