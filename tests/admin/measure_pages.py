"""How long the admin's pages take on a full database.

DATABASE_URL=… python -m tests.admin.measure_pages [LIVE ENDED EVENTS] fills the database, if told
how much, and prints the milliseconds of each page. It needs a migrated database of its own.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.test import Client

DAYS = 30
RARE = "shop.tasks.once_a_year"
WORKER = "00000000-0000-0000-0000-000000000001"

# The dead are the oldest, as they are kept the longest, and what is scheduled is the newest:
# a search for one of them from the other end walks past everything.
LIVE = """
INSERT INTO pgqueue_message
    (channel, key, task, payload, state, run_at, lease_until, worker_id, attempt, failures,
     max_attempts, errors, claimed_at, created_at)
SELECT CASE WHEN n %% 1000 = 0 THEN 'rare' WHEN n %% 10 = 2 THEN 'reports'
            WHEN n %% 4 = 3 THEN 'mail' ELSE 'default' END,
       CASE WHEN n %% 2 = 0 THEN '' ELSE 'customer:' || n %% 100000 END,
       CASE WHEN n %% (%(count)s / 10) = 1 THEN %(rare)s ELSE 'shop.tasks.task_' || n %% 20 END,
       jsonb_build_object('args', jsonb_build_array(n, md5(n::text)), 'kwargs', '{}'::jsonb),
       state,
       statement_timestamp() + CASE WHEN state = 'scheduled' THEN n * interval '1 s'
                                    ELSE n * interval '50 ms' - interval '1 day' END,
       CASE WHEN state = 'running' THEN statement_timestamp() + interval '1 hour' END,
       CASE WHEN state = 'running' THEN '00000000-0000-0000-0000-000000000001'::uuid END,
       CASE WHEN state IN ('running', 'dead') THEN 2 ELSE 0 END,
       CASE WHEN state = 'dead' THEN 5 ELSE 0 END,
       5,
       CASE WHEN state = 'dead' THEN jsonb_build_array(error, error) ELSE '[]' END,
       CASE WHEN state IN ('running', 'dead') THEN statement_timestamp() END,
       statement_timestamp() - interval '1 day' + n * interval '50 ms'
FROM (SELECT n,
             CASE WHEN n <= %(count)s / 10 THEN 'dead' WHEN n %% 1000 = 7 THEN 'running'
                  WHEN n %% 1000 = 9 THEN 'held' WHEN n > %(count)s * 7 / 10 THEN 'scheduled'
                  ELSE 'ready' END AS state,
             jsonb_build_object('attempt', 1, 'worker', 'w', 'at', statement_timestamp(),
                                'class', 'builtins.ValueError', 'message', 'no such order',
                                'traceback', repeat(md5(n::text) || E'\n', 30)) AS error
      FROM generate_series(1, %(count)s) AS n) AS s
"""

ENDED = """
INSERT INTO pgqueue_history
    (id, channel, key, task, payload, metadata, priority, run_at, worker_id, attempt, failures,
     lost, max_attempts, ordered, errors, claimed_at, started_at, created_at, outcome, result,
     finished_at, txid)
SELECT nextval('pgqueue_message_id_seq'),
       CASE WHEN n %% 1000 = 0 THEN 'rare' WHEN n %% 10 = 2 THEN 'reports'
            WHEN n %% 4 = 3 THEN 'mail' ELSE 'default' END,
       CASE WHEN n %% 2 = 0 THEN '' ELSE 'customer:' || n %% 100000 END,
       CASE WHEN n %% (%(count)s / 10) = 1 THEN %(rare)s ELSE 'shop.tasks.task_' || n %% 20 END,
       jsonb_build_object('args', jsonb_build_array(n, md5(n::text)), 'kwargs', '{}'::jsonb),
       '{}', 0, at, '00000000-0000-0000-0000-000000000001', 1, 0, 0, 5, false, '[]', at, at, at,
       CASE WHEN n %% 400 = 0 THEN 'cancelled' WHEN n %% 5000 = 1 THEN 'discarded'
            ELSE 'succeeded' END,
       '{"value": 1}', at, 1000 + n / 500
FROM (SELECT n, statement_timestamp() - %(days)s * interval '1 day'
                + n * (%(days)s * interval '1 day' / %(count)s) - interval '1 s' AS at
      FROM generate_series(1, %(count)s) AS n
      ORDER BY n) AS s
"""

EVENTS = """
INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at)
SELECT n,
       CASE WHEN n %% (%(count)s / 10) = 1 THEN 'shop.once_a_year' WHEN n %% 3 = 0 THEN 'order.paid'
            ELSE 'order.line.topic_' || n %% 20 END,
       CASE WHEN n %% 2 = 0 THEN '' ELSE 'customer:' || n %% 100000 END,
       jsonb_build_object('order', n, 'note', repeat(md5(n::text), 5)), '{}',
       statement_timestamp() - interval '1 day' + n * interval '50 ms'
FROM generate_series(1, %(count)s) AS n
"""

# Of 60 groups, on three pages: one has very many partitions, the others have few.
GROUPS = """
WITH made AS (
    INSERT INTO pgqueue_group (name, partitions)
    SELECT 'group_' || lpad(n::text, 2, '0'), CASE WHEN n = 60 THEN 400 ELSE 1 + n %% 12 END
    FROM generate_series(1, 60) AS n
    RETURNING name, partitions
), read AS (
    INSERT INTO pgqueue_reader (id, host, pid, "group", last_seen)
    SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'host', n, NULL,
           statement_timestamp()
    FROM generate_series(0, 99) AS n
)
INSERT INTO pgqueue_cursor ("group", partition, position, reader_id, lease_until)
SELECT name, number, %(count)s - number,
       ('00000000-0000-0000-0000-' || lpad((number %% 100)::text, 12, '0'))::uuid,
       statement_timestamp() + interval '1 hour'
FROM made, generate_series(0, partitions - 1) AS number
"""

SUBSCRIPTIONS = """
INSERT INTO pgqueue_subscription (name, task, topics, "where", position, follows, paused, error)
SELECT 'subscription-' || lpad(n::text, 4, '0'), 'shop.tasks.task_' || n %% 20, ARRAY['order.*'],
       jsonb_build_object('customer', n), n, n %% 3 > 0, n %% 10 = 0,
       CASE WHEN n %% 20 = 0 THEN 'DataError: no' ELSE '' END
FROM generate_series(1, %(count)s) AS n
"""

# Of each of the first two, all messages but the last are its parents. The small ones are chains.
FLOWS = """
WITH flows AS (
    INSERT INTO pgqueue_flow (id, name, created_at, ended_at)
    SELECT n, 'flow-' || n, statement_timestamp() - interval '2 days',
           CASE WHEN n = 1 OR n %% 2 = 0 THEN statement_timestamp() END
    FROM generate_series(1, 400) AS n
    WHERE n <> 2
    UNION ALL
    SELECT 2, 'flow-2', statement_timestamp() - interval '2 days', NULL
    RETURNING id
), sizes AS MATERIALIZED (
    SELECT n AS flow_id, CASE WHEN n <= 2 THEN %(size)s ELSE 4 END AS size
    FROM generate_series(1, 400) AS n
), members AS MATERIALIZED (
    SELECT nextval('pgqueue_message_id_seq') AS id, flow_id, number, size,
           'shop.tasks.' || CASE WHEN number = size THEN 'merge' ELSE 'fetch' END AS task
    FROM sizes CROSS JOIN LATERAL generate_series(1, size) AS number
    ORDER BY flow_id, number
), ended AS (
    INSERT INTO pgqueue_history
        (id, channel, key, task, payload, metadata, priority, run_at, attempt, failures, lost,
         max_attempts, ordered, errors, started_at, created_at, outcome, result, finished_at, txid,
         flow_id)
    SELECT id, 'default', '', task,
           '{"args": [], "kwargs": {}}', '{}', 0, at, 1, 0, 0, 5, false, '[]', at, at, 'succeeded',
           '{"value": 1}', at + interval '10 ms', 1, flow_id
    FROM (SELECT *, statement_timestamp() - interval '1 day' + number * interval '20 ms' AS at
          FROM members WHERE flow_id <> 2) m
), live AS (
    INSERT INTO pgqueue_message (id, channel, task, payload, state, max_attempts, flow_id)
    SELECT id, 'default', task,
           '{"args": [], "kwargs": {}}',
           CASE WHEN number = size THEN 'held' WHEN number = 1 THEN 'dead' ELSE 'ready' END, 5,
           flow_id
    FROM members WHERE flow_id = 2
), waits AS (
    INSERT INTO pgqueue_dependency (flow_id, child_id, parent_id)
    SELECT c.flow_id, c.id, p.id
    FROM members c JOIN members p ON p.flow_id = c.flow_id
    WHERE c.number > 1 AND CASE WHEN c.flow_id <= 2 THEN c.number = c.size AND p.number < c.number
                                ELSE p.number = c.number - 1 END
)
INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure)
SELECT last.id, 2, first.id, 'wait'
FROM members first JOIN members last ON first.flow_id = last.flow_id
WHERE last.flow_id = 2 AND last.number = last.size AND first.number = 1
"""

PARTITION = """
DO $$
DECLARE
    day timestamp;
BEGIN
    FOR day IN SELECT generate_series(today - interval '31 days', today, '1 day')
               FROM date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') AS today LOOP
        IF to_regclass('pgqueue_history_' || to_char(day, 'YYYYMMDD')) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF pgqueue_history FOR VALUES FROM (%L) TO (%L)',
                'pgqueue_history_' || to_char(day, 'YYYYMMDD'),
                day AT TIME ZONE 'UTC', (day + interval '1 day') AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
END $$
"""


def fill(live: int, ended: int) -> None:
    """Add messages, at least 1 000 of each kind."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(PARTITION)
        cursor.execute(ENDED, {"count": ended, "rare": RARE, "days": DAYS})
        cursor.execute(LIVE, {"count": live, "rare": RARE})


def fill_log(events: int) -> None:
    """Add events, and groups that read them. The log must be empty."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(EVENTS, {"count": events})
        cursor.execute(GROUPS, {"count": events})
        # They are so small that autovacuum looks at them after 50 changes.
        cursor.execute("ANALYZE pgqueue_group, pgqueue_cursor, pgqueue_reader")


def fill_subscriptions(count: int) -> None:
    """Add subscriptions."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(SUBSCRIPTIONS, {"count": count})


def fill_flows(size: int) -> None:
    """Add flows: one that has ended and one that goes on, of so many messages; and small ones."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(FLOWS, {"size": size})


def analyze() -> None:
    """Let the planner know, as autovacuum would."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE pgqueue_message")
        cursor.execute("ANALYZE pgqueue_history")
        cursor.execute("ANALYZE pgqueue_event")


def pages() -> dict[str, str]:
    """Return the paths of the pages that are measured, by name."""
    from pgqueue.models import Event, Flow, History, Message, Schedule, Worker

    message, history = "/admin/pgqueue/message/", "/admin/pgqueue/history/"
    event, group = "/admin/pgqueue/event/", "/admin/pgqueue/group/"
    head = Event.objects.latest("pk").pk
    newest = Message.objects.latest("pk").pk
    dead = Message.objects.dead().order_by("channel", "key", "pk")[0].pk
    ended = History.objects.order_by("-pk")[100].pk
    seen = datetime.now(UTC)
    about = {"host": "host", "pid": 1, "started_at": seen, "last_seen": seen}
    worker, _ = Worker.objects.get_or_create(pk=WORKER, defaults=about)
    recent = list(History.objects.order_by("-pk").values_list("pk", flat=True)[:10])
    Schedule.objects.update_or_create(
        name="nightly", defaults={"task": RARE, "cron": "0 3 * * *", "recent": recent}
    )
    day = (datetime.now(UTC) - timedelta(days=5)).date()
    found = {
        "overview": "/admin/pgqueue/overview/",
        "messages": message,
        "messages, page 2": f"{message}?p=2",
        "messages, last page": f"{message}?p=100",
        "messages, no such page": f"{message}?p=9999",
        "messages, second stretch": f"{message}?start=[{newest - 500}]",
        "messages of a channel": f"{message}?channel=mail",
        "messages of a rare channel": f"{message}?channel=rare",
        "messages of a task": f"{message}?task=shop.tasks.task_3",
        "messages of a rare task": f"{message}?task={RARE}",
        "messages of no task": f"{message}?task=nothing",
        "message by id": f"{message}?q={newest}",
        "messages by key": f"{message}?q=customer:77",
        "messages by no key": f"{message}?q=nobody",
        "message": f"{message}{newest}/change/",
        "dead message": f"{message}{dead}/change/",
        "history": history,
        "history, page 2": f"{history}?p=2",
        "history, last page": f"{history}?p=100",
        "history, second stretch": f"{history}?start=[{ended}]",
        "history of a day": f"{history}?day={day}",
        "history of a day, last page": f"{history}?day={day}&p=100",
        "history of a channel": f"{history}?channel=mail",
        "history of a rare channel": f"{history}?channel=rare",
        "history of a task": f"{history}?task=shop.tasks.task_3",
        "history of a rare task": f"{history}?task={RARE}",
        "history of a rare task and day": f"{history}?task={RARE}&day={day}",
        "history by id": f"{history}?q={ended}",
        "history by key": f"{history}?q=customer:77",
        "history by key and day": f"{history}?q=customer:77&day={day}",
        "ended message": f"{history}{ended}/change/",
        "messages with an error": f"{message}?state=dead&error=ValueError",
        "messages with no such error": f"{message}?error=Nothing",
        "all of a channel, replayed": f"{message}bulk/?action=replay&channel=mail",
        "all of a rare task, cancelled": f"{message}bulk/?action=cancel&task={RARE}",
        "all of a key, cancelled": f"{message}bulk/?action=cancel&channel=mail&key=customer:77",
        "all of a key in every channel": f"{message}bulk/?action=cancel&key=customer:77",
        "everything, cancelled": f"{message}bulk/?action=cancel",
        "key": f"{message}key/?channel=mail&key=customer:77",
        "no key": f"{message}key/?channel=default",
        "channel page": "/admin/pgqueue/channel/page/?name=mail",
        "rare channel page": "/admin/pgqueue/channel/page/?name=rare",
        "purge": "/admin/pgqueue/channel/purge/?name=mail",
        "worker": f"/admin/pgqueue/worker/{worker.pk}/change/",
        "schedule": "/admin/pgqueue/schedule/nightly/change/",
        "channels": "/admin/pgqueue/channel/",
        "policies": "/admin/pgqueue/policy/",
        "workers": "/admin/pgqueue/worker/",
        "duties": "/admin/pgqueue/duty/",
        "events": event,
        "events, page 2": f"{event}?p=2",
        "events, last page": f"{event}?p=100",
        "events, second stretch": f"{event}?start=[{head - 500}]",
        "events of a topic": f"{event}?topic=order.paid",
        "events of a pattern": f"{event}?topic=order.line.*",
        "events of a rare topic": f"{event}?topic=shop.once_a_year",
        "events of a rare pattern": f"{event}?topic=shop.**",
        "events of no topic": f"{event}?topic=nothing",
        "events after a position": f"{event}?after={head // 2}",
        "events up to a position": f"{event}?upto={head // 2}",
        "events of a range": f"{event}?after={head // 2}&upto={head // 2 + 100}",
        "events of a range and a rare topic": f"{event}?upto={head // 2}&topic=shop.once_a_year",
        "event by position": f"{event}?q={head}",
        "events by key": f"{event}?q=customer:77",
        "events by no key": f"{event}?q=nobody",
        "event": f"{event}{head}/change/",
        "groups": group,
        "groups, page 2": f"{group}?p=2",
        "groups, last page": f"{group}?p=3",
        "groups, all": f"{group}?all=",
        "groups by name": f"{group}?q=7",
        "group": f"{group}group_5F07/change/",
        "group of many partitions": f"{group}group_5F60/change/",
        "subscriptions": "/admin/pgqueue/subscription/",
        "subscriptions, last page": "/admin/pgqueue/subscription/?p=4",
        "subscriptions behind": "/admin/pgqueue/subscription/?state=behind",
        "subscriptions by name": "/admin/pgqueue/subscription/?q=0007",
        "subscription": "/admin/pgqueue/subscription/subscription-0007/change/",
    }
    if Flow.objects.exists():
        found |= _of_flows()
    for state in ("held", "scheduled", "ready", "governed", "running", "dead"):
        found |= {
            f"{state} messages": f"{message}?state={state}",
            f"{state} messages, last page": f"{message}?state={state}&p=100",
            f"{state} messages of a channel": f"{message}?state={state}&channel=mail",
            f"{state} messages of a rare channel": f"{message}?state={state}&channel=rare",
            f"{state} messages of a rare task": f"{message}?state={state}&task={RARE}",
            f"{state} messages by key": f"{message}?state={state}&q=customer:77",
            f"{state} messages by key and channel": f"{message}?state={state}&q=customer:77"
            "&channel=mail",
        }
    for outcome in ("succeeded", "cancelled", "discarded", "expired"):
        found |= {
            outcome: f"{history}?outcome={outcome}",
            f"{outcome} on a day": f"{history}?outcome={outcome}&day={day}",
        }
    return found


def _of_flows() -> dict[str, str]:
    from pgqueue.models import History, Message

    message, history, flow = (f"/admin/pgqueue/{each}/" for each in ("message", "history", "flow"))
    members, ended = Message.objects.filter(flow_id=2), History.objects.filter(flow_id=1)
    return {
        "flows": flow,
        "flows, last page": f"{flow}?p=20",
        "living flows": f"{flow}?state=living",
        "ended flows": f"{flow}?state=ended",
        "flows by name": f"{flow}?q=low-7",
        "flow by id": f"{flow}?q=7",
        "flow": f"{flow}7/change/",
        "large flow that has ended": f"{flow}1/change/",
        "large flow that goes on": f"{flow}2/change/",
        "large flow, cancelled": f"{flow}2/operate/?action=cancel",
        "messages of a flow": f"{message}?flow=2",
        "dead messages of a flow": f"{message}?flow=2&state=dead",
        "messages of no flow": f"{message}?flow=999",
        "history of a flow": f"{history}?flow=1",
        "history of a flow and task": f"{history}?flow=1&task=shop.tasks.merge",
        "history of no flow": f"{history}?flow=999&outcome=expired",
        "all of a flow, cancelled": f"{message}bulk/?action=cancel&flow=2",
        "first of a flow": f"{message}{members.earliest('pk').pk}/change/",
        "last of a flow": f"{message}{members.latest('pk').pk}/change/",
        "first of a flow, ended": f"{history}{ended.earliest('pk').pk}/change/",
        "last of a flow, ended": f"{history}{ended.latest('pk').pk}/change/",
    }


def measure() -> dict[str, float]:
    """Return each page's milliseconds, when it is asked for a second time."""
    client = _client()
    return {name: _second(client, path) for name, path in pages().items()}


def _client() -> Client:
    from django.contrib.auth.models import User
    from django.test import Client

    user, _ = User.objects.get_or_create(
        username="measure", defaults={"is_staff": True, "is_superuser": True}
    )
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def _second(client: Client, path: str) -> float:
    for _ in range(2):
        begun = perf_counter()
        response = client.get(path)
        taken = perf_counter() - begun
        assert response.status_code == 200, f"{path}: {response.status_code}"
    return taken * 1000


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    if len(sys.argv) > 1:
        live, ended, events = map(int, sys.argv[1:])
        fill(live, ended)
        fill_log(events)
        fill_subscriptions(400)
        fill_flows(100_000)
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE pgqueue_message, pgqueue_history, pgqueue_event")
    for name, milliseconds in measure().items():
        print(f"{milliseconds:8.1f} ms  {name}")


if __name__ == "__main__":
    main()
