"""Jobs of other queues, moved over: real ones, enqueued by those queues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone
from django_tasks_db.models import DBTaskResult
from procrastinate.contrib.django import app as procrastinate
from procrastinate.contrib.django.models import ProcrastinateJob

from pgqueue import Channel, read, receive, receive_external
from pgqueue.engine import dispatch, received
from pgqueue.events import subscriptions
from pgqueue.models import Message, Schedule
from pgqueue.operating import importers
from pgqueue.states import State
from pgqueue.testing import advance, run_all
from tests.backend import jobs
from tests.factories import limit, refusing

pytestmark = pytest.mark.django_db(transaction=True)

LATER = datetime(2100, 1, 1, tzinfo=UTC)
EXACT = "12345678901234567.89"
"""A number that no float holds with its digits."""


directions = SimpleNamespace(
    here=None,
    current=lambda: directions.here,
    enter=nullcontext,
    all=lambda: ["north", "south"],
)


@pytest.fixture(autouse=True)
def no_jobs_of_before() -> None:
    # Django flushes no table of a model that it doesn't manage.
    ProcrastinateJob.objects.all().delete()


def move(source: str, *arguments: str) -> Any:
    out = StringIO()
    call_command("pgqueue_import", "--from", source, "--format", "json", *arguments, stdout=out)
    return json.loads(out.getvalue())


def payloads() -> list[Any]:
    return list(Message.objects.order_by("pk").values_list("payload", flat=True))


class TestDjangoTasksDB:
    def test_is_moved_as_it_was(self) -> None:
        theirs = jobs.mail.using(backend="django-tasks-db")
        theirs.enqueue("Zoë")
        theirs.using(priority=-3, run_after=LATER).enqueue(to="Bo")

        report = move("django-tasks-db")

        assert report == {"moved": {"tests.backend.jobs.mail": 2}, "left": {}}
        first, second = Message.objects.order_by("pk")
        assert (first.channel, first.priority, first.state) == ("mail", 7, State.READY)
        assert (second.priority, second.state, second.run_at) == (-3, State.SCHEDULED, LATER)
        assert payloads() == [
            {"args": ["Zoë"], "kwargs": {}},
            {"args": [], "kwargs": {"to": "Bo"}},
        ]
        assert not DBTaskResult.objects.exists()

    def test_leaves_what_the_database_refuses(self) -> None:
        for number in range(5):
            jobs.add.using(backend="django-tasks-db").enqueue(number)

        connection.ensure_connection()
        with refusing(connection.connection, "pgqueue_message", "NEW.payload #>> '{args,0}' = '3'"):
            report = move("django-tasks-db")

        assert report["moved"] == {"tests.backend.jobs.add": 4}
        [(reason, count)] = report["left"].items()
        assert "refused" in reason
        assert count == 1
        assert DBTaskResult.objects.count() == 1

    def test_leaves_what_can_not_be_deleted_there(self) -> None:
        for number in range(5):
            jobs.add.using(backend="django-tasks-db").enqueue(number)

        connection.ensure_connection()
        table, condition = DBTaskResult._meta.db_table, "OLD.args_kwargs #>> '{args,0}' = '3'"
        with refusing(connection.connection, table, condition, "DELETE"):
            report = move("django-tasks-db")

        assert report["moved"] == {"tests.backend.jobs.add": 4}
        [(reason, count)] = report["left"].items()
        assert "refused" in reason
        assert "secret" not in reason
        assert count == 1
        assert [payload["args"] for payload in payloads()] == [[0], [1], [2], [4]]
        assert DBTaskResult.objects.count() == 1

    def test_leaves_what_runs_or_has_ended(self) -> None:
        for status in ("RUNNING", "FAILED", "SUCCESSFUL"):
            result = jobs.add.using(backend="django-tasks-db").enqueue(1)
            DBTaskResult.objects.filter(pk=result.id).update(status=status)

        assert move("django-tasks-db") == {"moved": {}, "left": {}}
        assert DBTaskResult.objects.count() == 3

    def test_comes_in_its_order(self) -> None:
        for number in range(20):
            jobs.add.using(backend="django-tasks-db").enqueue(number)

        move("django-tasks-db")

        assert [payload["args"] for payload in payloads()] == [[n] for n in range(20)]


class TestProcrastinate:
    def test_is_moved_as_it_was(self) -> None:
        name = "tests.backend.jobs.add"
        procrastinate.configure_task(name, queue="mail", lock="customer 1").defer(a=1, b=2)
        procrastinate.configure_task(name, priority=9, schedule_at=LATER).defer(a=3)

        report = move("procrastinate")

        assert report == {"moved": {name: 2}, "left": {}}
        first, second = Message.objects.order_by("pk")
        assert (first.channel, first.key, first.state) == ("mail", "customer 1", State.READY)
        assert (second.priority, second.state, second.run_at) == (9, State.SCHEDULED, LATER)
        assert payloads() == [
            {"args": [], "kwargs": {"a": 1, "b": 2}},
            {"args": [], "kwargs": {"a": 3}},
        ]
        assert not ProcrastinateJob.objects.exists()

    def test_keeps_the_digits_of_its_numbers(self) -> None:
        procrastinate.configure_task("tests.backend.jobs.add").defer(a=1)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE procrastinate_jobs SET args = %s", [f'{{"a": {EXACT}}}'])

        move("procrastinate")

        (payload,) = payloads()
        assert payload["kwargs"] == {"a": {"@": "Decimal", "value": EXACT}}


# As django-celery-beat 2.9 has them, as far as they are read. The package itself doesn't go with
# Django 6.1.
BEAT = """
    CREATE TABLE django_celery_beat_intervalschedule (
        id serial PRIMARY KEY, every integer NOT NULL, period varchar(24) NOT NULL);
    CREATE TABLE django_celery_beat_crontabschedule (
        id serial PRIMARY KEY, minute varchar(240) NOT NULL, hour varchar(96) NOT NULL,
        day_of_week varchar(64) NOT NULL, day_of_month varchar(124) NOT NULL,
        month_of_year varchar(64) NOT NULL, timezone varchar(63) NOT NULL);
    CREATE TABLE django_celery_beat_periodictask (
        id serial PRIMARY KEY, name varchar(200) NOT NULL UNIQUE, task varchar(200) NOT NULL,
        args text NOT NULL DEFAULT '[]', kwargs text NOT NULL DEFAULT '{}', queue varchar(200),
        expires timestamptz, expire_seconds integer, enabled boolean NOT NULL DEFAULT true,
        one_off boolean NOT NULL DEFAULT false, start_time timestamptz, priority integer,
        crontab_id integer, interval_id integer, solar_id integer, clocked_id integer);
    INSERT INTO django_celery_beat_intervalschedule VALUES
        (1, 5, 'minutes'), (2, 9, 'microseconds');
    INSERT INTO django_celery_beat_crontabschedule VALUES
        (1, '0', '3', '*', '*', '*', 'Europe/Berlin'),
        (2, '0, 30', '*/2', 'mon-fri', '*', '*', 'UTC'),
        (3, '0', '3', '1', '1', '*', 'UTC'), (4, '0', '3', 'fri-mon', '*', '*', 'UTC');
"""


@pytest.fixture
def beat() -> Iterator[Callable[..., None]]:
    """A function that adds a periodic task of Celery's beat."""

    def add(name: str, **columns: Any) -> None:
        given = {"name": name, "task": "tests.backend.jobs.add", "args": "[1]", **columns}
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO django_celery_beat_periodictask ({', '.join(given)}) "  # noqa: S608
                f"VALUES ({', '.join(['%s'] * len(given))})",
                list(given.values()),
            )

    with connection.cursor() as cursor:
        cursor.execute(BEAT)
    yield add
    with connection.cursor() as cursor:
        for name in ("periodictask", "crontabschedule", "intervalschedule"):
            cursor.execute(f"DROP TABLE django_celery_beat_{name}")


def left_in_beat() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM django_celery_beat_periodictask ORDER BY name")
        return [name for (name,) in cursor.fetchall()]


class TestCeleryBeat:
    def test_has_its_schedules_moved(self, beat: Callable[..., None]) -> None:
        beat("nightly", crontab_id=1, kwargs='{"b": 2}', queue="mail")
        beat("office", crontab_id=2, enabled=False)
        beat("often", interval_id=1)

        report = move("celery-beat")

        assert report == {"moved": {"nightly": 1, "office": 1, "often": 1}, "left": {}}
        nightly, office, often = Schedule.objects.order_by("name")
        assert (nightly.task, nightly.args, nightly.kwargs, nightly.channel) == (
            "tests.backend.jobs.add", [1], {"b": 2}, "mail",
        )  # fmt: skip
        assert (nightly.cron, nightly.timezone, nightly.paused) == (
            "0 3 * * *",
            "Europe/Berlin",
            False,
        )
        assert (office.cron, office.paused) == ("0,30 */2 * * mon-fri", True)
        assert (often.cron, often.every) == ("", timedelta(minutes=5))
        assert left_in_beat() == []

    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"solar_id": 1}, "it goes by the sun"),
            ({"clocked_id": 1}, "it runs once, at a time"),
            ({"crontab_id": 1, "one_off": True}, "it runs once"),
            ({"crontab_id": 1, "start_time": LATER}, "a start_time to come"),
            ({"crontab_id": 1, "expires": LATER}, "it expires"),
            ({"crontab_id": 1, "expire_seconds": 9}, "it expires"),
            ({"crontab_id": 1, "priority": 9}, "it has a priority"),
            ({"crontab_id": 3}, "must both fit"),
            ({"crontab_id": 4}, "no cron line"),
            ({"interval_id": 2}, "a second or more"),
            ({"crontab_id": 1, "task": "celery.backend_cleanup"}, "No task is named"),
            ({"crontab_id": 1, "args": "[1, 2, 3, 4]"}, "tests.backend.jobs.add"),
            ({"crontab_id": 1, "args": "oops"}, "Expecting value"),
            ({"crontab_id": 1, "args": f"[{EXACT}]"}, "would be rounded"),
            ({"crontab_id": 1, "kwargs": f'{{"b": {EXACT}}}'}, "would be rounded"),
        ],
    )
    def test_keeps_what_can_not_be_said_here(
        self, beat: Callable[..., None], columns: dict[str, Any], said: str
    ) -> None:
        beat("odd", **columns)
        beat("often", interval_id=1)

        report = move("celery-beat")

        ((reason, count),) = report["left"].items()
        assert reason.startswith("odd: ")
        assert said in reason
        assert (count, report["moved"], left_in_beat()) == (1, {"often": 1}, ["odd"])

    def test_keeps_one_that_can_not_be_deleted_there(self, beat: Callable[..., None]) -> None:
        for n in range(4):
            beat(name=f"s{n}", crontab_id=1)

        connection.ensure_connection()
        table = "django_celery_beat_periodictask"
        with refusing(connection.connection, table, "OLD.name = 's2'", "DELETE"):
            report = move("celery-beat")

        assert sorted(report["moved"]) == ["s0", "s1", "s3"]
        assert sorted(Schedule.objects.values_list("name", flat=True)) == ["s0", "s1", "s3"]
        assert left_in_beat() == ["s2"]

    def test_keeps_one_whose_name_is_taken(self, beat: Callable[..., None]) -> None:
        beat("often", interval_id=1)
        Schedule.objects.create(name="often", task="tests.jobs.add", cron="@daily")

        report = move("celery-beat")

        assert report["left"] == {"often: there is a schedule of this name already": 1}
        assert Schedule.objects.get().cron == "@daily"

    def test_dry_changes_nothing(self, beat: Callable[..., None]) -> None:
        beat("often", interval_id=1)

        assert move("celery-beat", "--dry-run")["moved"] == {"often": 1}
        assert (left_in_beat(), Schedule.objects.count()) == (["often"], 0)

    def test_needs_its_tables(self) -> None:
        with pytest.raises(CommandError, match="no tables of celery-beat"):
            move("celery-beat")


# As pg-transactional-outbox 0.6 makes them, by its DatabaseSetup.
OUTBOX = """
    CREATE TABLE {table} (
        id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
        message_type text NOT NULL, segment text,
        concurrency text NOT NULL DEFAULT 'sequential'
            CHECK (concurrency IN ('sequential', 'parallel')),
        payload jsonb NOT NULL, metadata jsonb,
        locked_until timestamptz NOT NULL DEFAULT to_timestamp(0),
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        processed_at timestamptz, abandoned_at timestamptz,
        started_attempts smallint NOT NULL DEFAULT 0,
        finished_attempts smallint NOT NULL DEFAULT 0)
"""
TOPIC = "order.order_placed"
EARLY = datetime(2026, 1, 1, tzinfo=UTC)


class Aggregates:
    """A table of pg-transactional-outbox."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, **columns: Any) -> str:
        """Store a message as they do; return its id."""
        given = {
            "id": str(uuid4()),
            "aggregate_type": "order",
            "aggregate_id": "7",
            "message_type": "order_placed",
            "payload": "{}",
            **columns,
        }
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self.name} ({', '.join(given)}) "  # noqa: S608
                f"VALUES ({', '.join(['%s'] * len(given))})",
                list(given.values()),
            )
        return given["id"]

    def left(self) -> set[str]:
        """Return the ids of the rows that are there."""
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id::text FROM {self.name}")  # noqa: S608
            return {id for (id,) in cursor.fetchall()}


@pytest.fixture
def made() -> Iterator[Callable[[str], Aggregates]]:
    """A function that makes a table of theirs."""
    names = []

    def make(name: str) -> Aggregates:
        with connection.cursor() as cursor:
            cursor.execute(OUTBOX.format(table=name))
        names.append(name)
        return Aggregates(name)

    yield make
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP TABLE {name}")


@pytest.fixture
def schema() -> Iterator[str]:
    """A schema that no search path leads to."""
    with connection.cursor() as cursor:
        cursor.execute('CREATE SCHEMA "Messaging"')
    yield "Messaging"
    with connection.cursor() as cursor:
        cursor.execute('DROP SCHEMA "Messaging"')


@pytest.fixture
def outbox(made: Callable[[str], Aggregates]) -> Aggregates:
    return made("outbox")


@pytest.fixture
def inbox(made: Callable[[str], Aggregates]) -> Aggregates:
    return made("inbox")


def move_inbox(*arguments: str) -> Any:
    return move("transactional-inbox", "--source", "erp", *arguments)


class TestATransactionalOutbox:
    def test_has_its_messages_published_in_their_order(self, outbox: Aggregates) -> None:
        for n in reversed(range(20)):
            outbox.add(payload=json.dumps({"n": n}), created_at=EARLY + timedelta(seconds=n))

        report = move("transactional-outbox")

        assert report == {"moved": {TOPIC: 20}, "left": {}}
        assert [event.payload["n"] for event in read(topics=TOPIC)] == list(range(20))
        assert outbox.left() == set()

    def test_has_its_columns_kept(self, outbox: Aggregates) -> None:
        id = outbox.add(
            aggregate_type="movie rental",
            segment="customer 3",
            concurrency="parallel",
            payload='{"total": 1.50, "at": null}',
            metadata='{"trace": "x"}',
        )
        outbox.add()

        move("transactional-outbox")

        event, other = read()
        assert (event.topic, event.key) == ("movie_rental.order_placed", "customer 3")
        assert event.payload == {"total": 1.5, "at": None}
        aggregate = {
            "type": "movie rental",
            "id": "7",
            "message_type": "order_placed",
            "message_id": id,
            "concurrency": "parallel",
        }
        assert event.metadata == {"trace": "x", "aggregate": aggregate}
        assert (other.topic, other.key) == (TOPIC, "7")

    def test_keeps_the_digits_of_its_numbers(self, outbox: Aggregates) -> None:
        outbox.add(payload=f'{{"total": {EXACT}, "rate": 0.1}}')

        move("transactional-outbox")

        (event,) = read()
        assert event.payload == {"total": Decimal(EXACT), "rate": 0.1}

    def test_has_what_is_locked_until_later_published_then(self, outbox: Aggregates) -> None:
        soon = timezone.now() + timedelta(hours=1)
        outbox.add(locked_until=soon, payload="1")
        outbox.add(locked_until=soon, payload="2", started_attempts=1)
        outbox.add(locked_until=EARLY, payload="3")

        move("transactional-outbox")

        # The second one was leased by a listener that is gone.
        assert [event.payload for event in read(topics=TOPIC)] == [2, 3]
        assert Message.objects.get().run_at == soon
        advance(3601)
        run_all(raise_errors=True)
        assert [event.payload for event in read(topics=TOPIC)] == [2, 3, 1]

    def test_keeps_what_was_processed_or_abandoned(self, outbox: Aggregates) -> None:
        kept = {
            outbox.add(processed_at=EARLY),
            outbox.add(abandoned_at=EARLY),
            outbox.add(abandoned_at=EARLY),
        }

        report = move("transactional-outbox")

        assert report == {"moved": {}, "left": {f"{TOPIC}: it was abandoned there": 2}}
        assert outbox.left() == kept
        assert read() == []

    def test_keeps_what_can_be_no_event_and_goes_on_behind_it(
        self, outbox: Aggregates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importers, "BATCH", 2)
        for _ in range(3):
            outbox.add(aggregate_type="")
            outbox.add()

        report = move("transactional-outbox")

        ((reason, count),) = report["left"].items()
        assert "topic='.order_placed'" in reason
        assert (count, report["moved"], len(outbox.left())) == (3, {TOPIC: 3}, 3)

    @pytest.mark.parametrize(
        "columns", [{"payload": "[" * 3000 + "]" * 3000}, {"metadata": f'{{"rate": {EXACT}}}'}]
    )
    def test_keeps_what_can_not_be_read_or_stored_whole(
        self, outbox: Aggregates, columns: dict[str, Any]
    ) -> None:
        kept = outbox.add(**columns)
        outbox.add()

        report = move("transactional-outbox")

        assert (report["moved"], list(report["left"].values())) == ({TOPIC: 1}, [1])
        assert outbox.left() == {kept}

    def test_keeps_what_can_not_be_deleted_there(self, outbox: Aggregates) -> None:
        for n in range(5):
            outbox.add(payload=json.dumps({"n": n}), created_at=EARLY + timedelta(seconds=n))

        connection.ensure_connection()
        condition = "OLD.payload ->> 'n' = '2'"
        with refusing(connection.connection, "outbox", condition, "DELETE"):
            report = move("transactional-outbox")

        assert report["moved"] == {TOPIC: 4}
        [(reason, count)] = report["left"].items()
        assert (count, "refused" in reason) == (1, True)
        assert [event.payload["n"] for event in read(topics=TOPIC)] == [0, 1, 3, 4]
        assert len(outbox.left()) == 1

    def test_dry_changes_nothing(self, outbox: Aggregates) -> None:
        kept = {outbox.add()}

        assert move("transactional-outbox", "--dry-run")["moved"] == {TOPIC: 1}
        assert (outbox.left(), read()) == (kept, [])

    def test_may_have_another_name(self, schema: str, made: Callable[[str], Aggregates]) -> None:
        table = made(f'"{schema}"."Out box"')
        table.add()

        report = move("transactional-outbox", "--table", f"{schema}.Out box")

        assert report["moved"] == {TOPIC: 1}
        assert table.left() == set()

    def test_reaches_a_subscription_that_hands_it_on_in_order(self, outbox: Aggregates) -> None:
        subscriptions.create("orders", topics="order.*", channel="out", key="{key}", ordered=True)
        for n in range(3):
            outbox.add(payload=str(n), created_at=EARLY + timedelta(seconds=n))

        move("transactional-outbox")
        read()  # gives positions
        with transaction.atomic():
            dispatch.step(connection.connection)

        found = []
        for _ in range(3):
            (delivery,) = receive("out", limit=3, wait=10)
            found.append(delivery.payload["payload"])
            delivery.complete()
        assert found == [0, 1, 2]


class TestATransactionalInbox:
    def test_has_its_messages_received_once(self, inbox: Aggregates) -> None:
        id = inbox.add(payload="5")

        report = move_inbox()

        assert report == {"moved": {TOPIC: 1}, "left": {}, "remembered": 0}
        (event,) = read()
        assert (event.payload, event.key) == (5, "7")
        assert event.metadata["external"] == {"id": id, "source": "erp"}
        # The sender repeats it.
        assert not receive_external(id, TOPIC, 5, source="erp")

    def test_has_what_it_handled_remembered(self, inbox: Aggregates) -> None:
        ids = [inbox.add(processed_at=EARLY), inbox.add(abandoned_at=EARLY)]

        report = move_inbox()

        assert (report["moved"], report["remembered"]) == ({}, 2)
        assert inbox.left() == set(ids)
        assert not any(receive_external(id, TOPIC, source="erp") for id in ids)
        assert move_inbox()["remembered"] == 0

    def test_has_its_ids_remembered_in_each_tenant(self, inbox: Aggregates, settings: Any) -> None:
        ids = [inbox.add(processed_at=EARLY), inbox.add(payload="5")]
        settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": f"{__name__}.directions"}

        assert move_inbox()["remembered"] == 1
        for directions.here in (None, "north", "south"):
            assert not any(receive_external(id, TOPIC, source="erp") for id in ids)
        directions.here = "east"
        assert all(receive_external(id, TOPIC, source="erp") for id in ids)

    def test_has_no_more_than_a_batch_of_ids_remembered_at_once(
        self, inbox: Aggregates, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remember, numbers = received.remember, list[int]()

        def counted(connection: Any, ids: Any, **options: Any) -> set[str]:
            numbers.append(len(ids))
            return remember(connection, ids, **options)

        monkeypatch.setattr(received, "remember", counted)
        monkeypatch.setattr(importers, "BATCH", 2)
        for _ in range(3):
            inbox.add(processed_at=EARLY)
        settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": f"{__name__}.directions"}

        assert move_inbox()["remembered"] == 3
        assert numbers == [2, 2, 2, 1, 1, 1]  # of no tenant, and of two

    def test_has_all_of_it_remembered(
        self, inbox: Aggregates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importers, "BATCH", 2)
        ids = [inbox.add(processed_at=EARLY) for _ in range(5)]

        assert move_inbox()["remembered"] == 5
        assert not any(receive_external(id, source="erp") for id in ids)

    def test_has_its_ids_remembered_but_for_one_that_can_not_be(self, inbox: Aggregates) -> None:
        ids = [inbox.add(processed_at=EARLY) for _ in range(5)]

        connection.ensure_connection()
        condition = f"NEW.dedupe_key LIKE '%{ids[3]}%'"
        with refusing(connection.connection, "pgqueue_dedupe", condition):
            report = move_inbox()

        assert report["remembered"] == 4
        [(reason, count)] = report["left"].items()
        assert (count, "refused" in reason) == (1, True)

    def test_dry_remembers_nothing(self, inbox: Aggregates) -> None:
        ids = [inbox.add(processed_at=EARLY), inbox.add()]

        report = move_inbox("--dry-run")

        assert (report["moved"], report["remembered"]) == ({TOPIC: 1}, 1)
        assert all(receive_external(id, source="erp") for id in ids)

    def test_says_in_words_what_it_did(self, inbox: Aggregates) -> None:
        inbox.add(processed_at=EARLY)
        out = StringIO()

        call_command("pgqueue_import", "--from", "transactional-inbox", stdout=out)

        assert "1 ids of messages that were handled there are remembered." in out.getvalue()


class TestOptionsOfATransactionalOutbox:
    def test_name_a_table_that_is_there(self) -> None:
        with pytest.raises(CommandError, match="no table outbox: name it by --table"):
            move("transactional-outbox")
        with pytest.raises(CommandError, match=r"no table a\.b"):
            move("transactional-inbox", "--table", "a.b")

    def test_are_of_no_other_source(self) -> None:
        with pytest.raises(CommandError, match="--table: the tables of procrastinate"):
            move("procrastinate", "--table", "jobs")
        with pytest.raises(CommandError, match="--source: transactional-outbox is no inbox"):
            move("transactional-outbox", "--source", "erp")

    def test_are_checked(self, inbox: Aggregates) -> None:
        inbox.add()

        with pytest.raises(CommandError, match="NAME or SCHEMA.NAME"):
            move("transactional-inbox", "--table", "a.b.c")
        with pytest.raises(CommandError, match="source='a:b'"):
            move("transactional-inbox", "--source", "a:b")


class TestMoving:
    def test_again_takes_nothing_twice(self) -> None:
        jobs.add.using(backend="django-tasks-db").enqueue(1)

        reports = [move("django-tasks-db"), move("django-tasks-db")]

        assert [sum(report["moved"].values()) for report in reports] == [1, 0]
        assert Message.objects.count() == 1

    def test_goes_on_behind_what_it_has_to_leave(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importers, "BATCH", 2)
        for number in range(5):
            procrastinate.configure_task("gone.task").defer(n=number)
            procrastinate.configure_task("tests.backend.jobs.add").defer(a=number)

        report = move("procrastinate")

        assert report == {
            "moved": {"tests.backend.jobs.add": 5},
            "left": {"gone.task: no task has this name here": 5},
        }
        assert ProcrastinateJob.objects.count() == 5

    @pytest.mark.parametrize("on_full", ["refuse", "drop"])
    def test_leaves_what_a_full_channel_does_not_take(
        self, on_full: str, outbox: Aggregates
    ) -> None:
        Channel("mail").configure(on_full=on_full)
        Channel("default").configure(on_full=on_full)
        limit("mail", scope="channel", max_size=2)
        limit("default", scope="channel", max_size=2)
        soon = timezone.now() + timedelta(hours=1)
        for number in range(5):
            procrastinate.configure_task("tests.backend.jobs.add", queue="mail").defer(a=number)
            outbox.add(locked_until=soon)

        reports = [move("procrastinate"), move("transactional-outbox")]

        for report in reports:
            assert sum(report["moved"].values()) == 2
            assert sum(report["left"].values()) == 3
        assert (ProcrastinateJob.objects.count(), len(outbox.left())) == (3, 3)
        assert Message.objects.count() == 4

    @pytest.mark.parametrize(
        ("changed", "said"),
        [({"priority": 1000}, "-100 to 100"), ({"args": {"c": 1}}, "doesn't fit")],
    )
    def test_says_what_it_can_not_take(self, changed: dict[str, Any], said: str) -> None:
        name = "tests.backend.jobs.add"
        options = {"priority": changed.get("priority", 0)}
        procrastinate.configure_task(name, **options).defer(**changed.get("args", {"a": 1}))
        procrastinate.configure_task(name).defer(a=1)

        report = move("procrastinate")

        ((reason, count),) = report["left"].items()
        assert said in reason
        assert (count, report["moved"]) == (1, {name: 1})

    def test_dry_changes_nothing(self) -> None:
        jobs.add.using(backend="django-tasks-db").enqueue(1)

        report = move("django-tasks-db", "--dry-run")

        assert report["moved"] == {"tests.backend.jobs.add": 1}
        assert (Message.objects.count(), DBTaskResult.objects.count()) == (0, 1)

    def test_leaves_what_a_worker_of_theirs_is_just_taking(self, second_session: Any) -> None:
        result = jobs.add.using(backend="django-tasks-db").enqueue(1)
        second_session.execute(
            "SELECT FROM django_tasks_database_dbtaskresult WHERE id = %s FOR UPDATE", [result.id]
        )

        assert move("django-tasks-db") == {"moved": {}, "left": {}}

    def test_needs_their_tables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE procrastinate_jobs RENAME TO elsewhere")
        try:
            with pytest.raises(CommandError, match="no tables of procrastinate"):
                move("procrastinate")
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO procrastinate_jobs")

    def test_says_in_words_what_it_did(self) -> None:
        jobs.add.using(backend="django-tasks-db").enqueue(1)
        out = StringIO()

        call_command("pgqueue_import", "--from", "django-tasks-db", stdout=out)

        assert out.getvalue().split() == [
            "1", "moved:", "tests.backend.jobs.add", "1", "moved,", "0", "left.",
        ]  # fmt: skip


@pytest.fixture
def second_session() -> Any:
    """A session of another's, in a transaction."""
    other = connection.copy()
    other.ensure_connection()
    session = other.connection
    session.autocommit = False
    yield session
    session.rollback()
    other.close()


def test_a_job_of_yesterday_is_due() -> None:
    procrastinate.configure_task(
        "tests.backend.jobs.add", schedule_at=timezone.now() - timedelta(days=1)
    ).defer(a=1)

    move("procrastinate")

    assert Message.objects.get().state == State.READY
