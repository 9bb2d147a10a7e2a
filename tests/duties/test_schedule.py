"""Schedules: one message at each tick, whichever worker tries or dies, and whatever was missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from unittest.mock import Mock, patch

import django.db
import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import override_settings

from pgqueue import Schedule as Pgqueue
from pgqueue import signals, task
from pgqueue.database.connections import Session
from pgqueue.duties import schedule as kind
from pgqueue.duties.service import Duties
from pgqueue.engine import cancel, duty, retention, settle
from pgqueue.engine import schedule as engine
from pgqueue.engine.schedule import DeclaredSchedule
from pgqueue.exceptions import ChannelFull, InvalidSchedule
from pgqueue.models import Channel, Message, Policy, Schedule
from pgqueue.options.schedules import as_schedules
from pgqueue.options.ticks import EPOCH, Every, upcoming
from pgqueue.states import State
from pgqueue.tasks import registry, scheduling
from tests import jobs
from tests.claims import GovernedClaims
from tests.factories import LEASE, Connection, claim, done, enqueue, failure, limit
from tests.hearing import heard
from tests.stepping import Step

SECOND = timedelta(seconds=1)
DAY = max(
    (timedelta(hours=hours) for hours in (23, 24, 25)),
    key=lambda each: min((datetime.now(UTC) - EPOCH) % each, (EPOCH - datetime.now(UTC)) % each),
)
"""About a day: an interval that has no tick while these tests run, nor had one just before."""
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


tenant: ContextVar[str] = ContextVar("tenant", default="none")


@dataclass
class Argument:
    """An argument whose class runs code of the project as it is read."""

    name: str
    tenant: str = ""

    def __post_init__(self) -> None:
        self.tenant = self.tenant or tenant.get()
        tenant.set(self.name)
        if self.name == "opens" and transaction.get_autocommit():
            transaction.set_autocommit(False)
            Group.objects.create(name="never committed")


@task
def take(argument: Argument) -> None: ...


def refuse(password: str) -> str:
    raise ValueError(f"no such user: {password}")


@task(key=refuse)
def log_in(password: str) -> None: ...


@pytest.fixture
def duty_of() -> Callable[[], kind.Schedules]:
    """A function that makes the duty of another worker."""
    return lambda: kind.Schedules(database="default", scheduling=scheduling)


def do(a_duty: kind.Schedules, connection: Connection) -> timedelta:
    """Do the duty as its service does, but for the duty's row."""
    with connection.transaction():
        return a_duty.run(connection)


def add(name: str = "s", **columns: Any) -> Schedule:
    """Add a schedule as an operator does in the admin."""
    given = {"task": "tests.jobs.add", "args": [1, 2], **columns}
    if "cron" not in given:
        given.setdefault("every", DAY)
    return Schedule.objects.create(name=name, **given)


def make_due(connection: Connection, name: str = "s", *, days: int = 0) -> datetime:
    """Leave its last tick to be done, and as many before it; return the first of them."""
    now = datetime.now(UTC)
    tick = now - (now - EPOCH) % DAY - days * DAY
    connection.execute("UPDATE pgqueue_schedule SET next_at = %s WHERE name = %s", [tick, name])
    return tick


def ticks() -> list[datetime]:
    """Return what the messages say of their ticks, in the order in which they were stored."""
    said = Message.objects.order_by("pk").values_list("metadata", flat=True)
    return [datetime.fromisoformat(each["tick"]) for each in said]


class TestATick:
    def test_of_a_new_schedule_is_the_next_one_from_now(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(cron="0 3 * * *", timezone="Europe/Berlin")

        again_in = do(duty_of(), connection)

        row = Schedule.objects.get()
        assert row.next_at
        assert row.next_at.astimezone(UTC).hour in (1, 2)
        assert row.next_at.minute == row.next_at.second == 0
        assert (row.ticked_at, Message.objects.count()) == (None, 0)
        assert again_in <= SECOND

    def test_has_a_message_that_says_which_it_is(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(channel="mail", priority=7)
        tick = make_due(connection)

        do(duty_of(), connection)

        message = Message.objects.get()
        assert (message.task, message.channel, message.priority, message.state) == (
            "tests.jobs.add", "mail", 7, State.READY,
        )  # fmt: skip
        assert message.payload == {"args": [1, 2], "kwargs": {}}
        assert message.metadata == {"schedule": "s", "tick": tick.astimezone(UTC).isoformat()}
        row = Schedule.objects.get()
        assert (row.ticked_at, row.next_at, row.message_id) == (tick, tick + DAY, message.pk)
        assert row.recent == [message.pk]

    def test_is_done_once_however_often_one_looks(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add()
        make_due(connection)

        for _ in range(3):
            do(duty_of(), connection)

        assert Message.objects.count() == 1

    def test_tells_when_the_next_one_is(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        a_duty = duty_of()
        add()
        do(a_duty, connection)
        connection.execute(
            "UPDATE pgqueue_schedule SET next_at = clock_timestamp() + interval '0.5 seconds'"
        )

        again_in = do(a_duty, connection)

        assert timedelta() < again_in <= SECOND / 2

    def test_of_a_paused_schedule_has_none_nor_later(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add()
        make_due(connection, days=5)
        Schedule.objects.all().pause()

        do(duty_of(), connection)
        Schedule.objects.all().resume()
        do(duty_of(), connection)

        assert not Message.objects.exists()
        row = Schedule.objects.get()
        assert row.next_at
        assert row.next_at > datetime.now(UTC) - SECOND

    def test_is_not_done_again_when_its_line_is_changed_or_the_clock_set_back(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(every=10 * SECOND)
        (*_, ahead) = upcoming(Every(10 * SECOND), datetime.now(UTC), 5)
        Schedule.objects.update(ticked_at=ahead)

        do(duty_of(), connection)

        assert Schedule.objects.get().next_at == ahead + 10 * SECOND

    def test_that_a_clock_far_ahead_has_done_is_not_waited_for_by_what_begins_again(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add()
        far = EPOCH + 90_000 * DAY
        Schedule.objects.update(next_at=far + DAY, ticked_at=far)

        Schedule.objects.all().pause()
        Schedule.objects.all().resume()
        do(duty_of(), connection)

        assert Schedule.objects.get().next_at == make_due(connection) + DAY

    def test_has_a_context_of_its_own(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        for name in ("a", "b"):
            Schedule.objects.create(name=name, task=take.name, args=[{"name": name}], every=DAY)
            make_due(connection, name)

        do(duty_of(), connection)

        payloads = Message.objects.values_list("payload", flat=True)
        assert [each["args"][0]["tenant"] for each in payloads] == ["none"] * 2
        assert tenant.get() == "none"

    def test_goes_by_what_the_task_says(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add("keyed", task="tests.jobs.keyed", args=[7])
        make_due(connection, "keyed")

        do(duty_of(), connection)

        assert Message.objects.get().key == "tenant:7"

    def test_may_call_a_task_of_djangos(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(task="tests.backend.jobs.add", args=[], kwargs={"a": 1})
        make_due(connection)

        do(duty_of(), connection)

        assert Message.objects.get().payload == {"args": [], "kwargs": {"a": 1}}

    def test_may_call_a_task_with_a_model_instance_as_long_as_there_is_one(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        group = Group.objects.create(name="before")
        stored = json.loads(jobs.rename.codec.encode((group, "after"), {}))
        add(task="tests.jobs.rename", args=stored["args"])

        make_due(connection)
        do(duty_of(), connection)
        group.delete()
        make_due(connection)
        do(duty_of(), connection)

        assert Message.objects.get().payload == stored
        assert "DoesNotExist" in Schedule.objects.get().error


class TestInASessionOfAnyZone:
    """Behind a pooler no session sets it: the database or the role does."""

    @pytest.fixture(autouse=True)
    def _it_is_berlins(self, connection: Connection) -> None:
        connection.execute("SET timezone = 'Europe/Berlin'")

    def test_a_schedules_times_are_in_utc(self, connection: Connection) -> None:
        add()
        tick = make_due(connection)

        with connection.transaction():
            (found,) = engine.due(connection, names=[], aside=[], limit=9)

        assert found.next_at
        assert (found.next_at, found.next_at.tzinfo, found.now.tzinfo) == (tick, UTC, UTC)

    def test_a_message_says_in_utc_which_tick_it_is(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add()
        tick = make_due(connection)

        do(duty_of(), connection)

        assert Message.objects.get().metadata["tick"] == tick.astimezone(UTC).isoformat()

    @pytest.mark.parametrize(
        "change",
        [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)],
        ids=["spring", "autumn"],
    )
    @pytest.mark.parametrize(
        "when",
        [{"every": timedelta(minutes=10)}, {"cron": "*/10 * * * *"}, {"cron": "30 2 * * *"}],
        ids=["interval", "all day", "daily"],
    )
    def test_each_tick_comes_once_where_the_clock_changes(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        monkeypatch: pytest.MonkeyPatch,
        when: dict[str, Any],
        change: datetime,
    ) -> None:
        a_duty, due = duty_of(), engine.SQL["due"]
        began, ended = change - timedelta(hours=2), change + timedelta(hours=2)
        row = add(**when, timezone="Europe/Berlin", missed="all")

        for minutes in range(0, 246, 7):
            now = began + timedelta(minutes=minutes)
            at = due.replace("statement_timestamp()", f"'{now.isoformat()}'::timestamptz")
            monkeypatch.setitem(engine.SQL, "due", at)
            do(a_duty, connection)

        expected = [tick for tick in upcoming(row.rhythm, began, 30) if tick <= ended]
        assert ticks() == expected


class TestManyWorkers:
    def test_one_whose_ticks_are_being_done_is_left_to_who_does_them(
        self, connection: Connection, other: Connection
    ) -> None:
        add()
        make_due(connection)
        asked: dict[str, Any] = {"names": [], "aside": [], "limit": 9}

        with connection.transaction():
            first = engine.due(connection, **asked)
            second = engine.due(other, **asked)

        assert ([each.name for each in first], second) == (["s"], [])

    def test_two_who_try_at_once_make_one_message(
        self,
        connection: Connection,
        other: Connection,
        duty_of: Callable[[], kind.Schedules],
    ) -> None:
        add()
        make_due(connection)

        with connection.transaction():
            duty_of().run(connection)
            again_in = do(duty_of(), other)
        do(duty_of(), other)

        assert Message.objects.count() == 1
        assert again_in >= kind.BESIDE_A_LOCK  # and not in a hot loop

    def test_one_who_dies_amid_it_leaves_it_to_the_next(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        duty_of: Callable[[], kind.Schedules],
    ) -> None:
        add()
        tick = make_due(connection)

        with pytest.raises(Exception, match="terminat|closed"), connection.transaction():
            duty_of().run(connection)
            third.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
            connection.execute("SELECT 1")
        do(duty_of(), other)

        assert ticks() == [tick.astimezone(UTC)]

    def test_an_operator_who_edits_it_meanwhile_is_not_waited_for(
        self, connection: Connection, other: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add("a")
        add("b")
        for name in "ab":
            make_due(connection, name)

        with other.transaction():
            other.execute("UPDATE pgqueue_schedule SET priority = 1 WHERE name = 'a'")
            do(duty_of(), connection)
            done = Message.objects.values_list("metadata__schedule", flat=True)
            assert list(done) == ["b"]
        do(duty_of(), connection)

        assert Message.objects.count() == 2

    def test_all_in_a_service_do_a_tick_once(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add()
        make_due(connection)
        sessions = [Session("default", name="test") for _ in range(3)]
        services = [
            Duties(session, [duty_of()], lease=LEASE, on_done=lambda: None) for session in sessions
        ]

        naps = [service.tick() for service in services]
        for session in sessions:
            session.close()

        assert Message.objects.count() == 1
        assert max(naps) <= SECOND


class TestMissedTicks:
    """No worker was there for ten days."""

    @pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 10)])
    def test_are_made_up_for_as_the_schedule_says(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        missed: str,
        count: int,
    ) -> None:
        add(missed=missed)
        first = make_due(connection, days=9)

        do(duty_of(), connection)

        assert ticks() == [(first + n * DAY).astimezone(UTC) for n in range(10)][10 - count :]
        assert Schedule.objects.get().next_at == first + 10 * DAY

    def test_are_made_up_for_a_batch_at_a_time(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(kind, "BATCH", 4)
        a_duty = duty_of()
        add(missed="all")
        first = make_due(connection, days=9)

        again_in = do(a_duty, connection)
        assert len(ticks()) == 4
        assert again_in <= kind.SOONEST
        for _ in range(3):
            do(a_duty, connection)

        assert ticks() == [(first + n * DAY).astimezone(UTC) for n in range(10)]

    def test_of_many_schedules_are_not_made_up_for_in_one_transaction(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(kind, "BATCH", 4)
        a_duty = duty_of()
        for name in "abc":
            add(name, missed="all")
            make_due(connection, name, days=2)

        again_in = do(a_duty, connection)
        assert len(ticks()) == 6  # the second was begun before there were four
        assert again_in <= kind.SOONEST
        do(a_duty, connection)

        assert len(ticks()) == 9


class TestOverlap:
    """A tick comes while the message of an earlier one waits or runs."""

    def test_that_is_allowed_has_both_run(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(overlap="allow", missed="all")
        make_due(connection, days=2)

        do(duty_of(), connection)

        assert len(claim(connection)) == 3

    def test_that_is_skipped_has_no_message_until_that_one_ends(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        a_duty = duty_of()
        add(overlap="skip", missed="all")
        make_due(connection, days=2)
        do(a_duty, connection)

        [running] = claim(connection)
        make_due(connection)
        do(a_duty, connection)
        settle.retry(connection, [failure(running, delay=DAY)])
        make_due(connection)
        do(a_duty, connection)
        assert Message.objects.get().pk == running.id
        assert Schedule.objects.get().error == ""
        cancel.cancel(connection, [running.id])
        make_due(connection)
        do(a_duty, connection)

        assert Message.objects.get().pk != running.id

    def test_that_is_skipped_is_not_told_as_a_tick_that_had_a_message(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        a_duty = duty_of()
        add(overlap="skip", missed="all")
        first = make_due(connection, days=2)

        do(a_duty, connection)
        assert a_duty.did == {"enqueued": 1, "skipped": 2}
        make_due(connection)
        do(a_duty, connection)

        assert a_duty.did == {"enqueued": 0, "skipped": 1}
        row = Schedule.objects.get()
        assert (row.ticked_at, row.message_id) == (first, Message.objects.get().pk)
        assert row.next_at == first + 3 * DAY

    @pytest.mark.parametrize("name", ["tests.jobs.fold", "tests.backend.jobs.fold"])
    def test_that_is_skipped_is_so_whatever_the_task_does_with_its_own_dedupe_key(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], name: str
    ) -> None:
        row = add(overlap="skip", missed="all", task=name, args=[])
        scheduling.check_schedule(row)
        make_due(connection, days=2)

        do(duty_of(), connection)

        assert Message.objects.get().task == name
        assert Schedule.objects.get().error == ""

    def test_that_the_task_can_not_have_is_refused(self) -> None:
        row = Schedule(name="s", task="tests.batch_jobs.by_key", args=[1], every=DAY)
        scheduling.check_schedule(row)

        row.overlap = "one"

        with pytest.raises(InvalidSchedule, match="batch_by='key'"):
            scheduling.check_schedule(row)

    def test_that_is_one_at_a_time_has_one_wait_for_the_other(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(overlap="one", missed="all")
        make_due(connection, days=2)
        do(duty_of(), connection)
        turns, ran = GovernedClaims(connection), []

        while claims := turns.claim(100):
            (running,) = claims
            ran.append(json.loads(running.metadata)["tick"])
            settle.complete(connection, [done(running)])

        assert len(ran) == 3
        assert ran == sorted(ran)


def pass_a_minute(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what asks which ticks are due be a minute ahead."""
    later = "statement_timestamp() + interval '1 minute'"
    due = engine.SQL["due"].replace("statement_timestamp()", later)
    monkeypatch.setitem(engine.SQL, "due", due)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> str:
    """A channel whose producers wait for each other; ticks that have to are soon tried again."""
    monkeypatch.setattr(kind, "ASIDE_IF_BUSY", 0)
    limit("small", "channel", max_size=9)
    return "small"


class TestATickThatFails:
    def test_is_left_out_and_said_and_the_next_one_is_done(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add("full", channel="small")
        add("other")
        limit("small", "channel", max_size=1)
        enqueue(connection, channel="small")
        for name in ("full", "other"):
            make_due(connection, name)

        do(duty_of(), connection)
        failed = Schedule.objects.get(name="full")
        Policy.objects.all().delete()
        first = make_due(connection, "full")
        do(duty_of(), connection)

        assert "ChannelFull" in failed.error
        assert (failed.next_at, failed.ticked_at) == (first + DAY, None)
        assert Message.objects.filter(metadata__schedule="other").count() == 1
        row = Schedule.objects.get(name="full")
        assert (row.error, row.ticked_at) == ("", first)

    def test_takes_none_of_those_with_it_that_are_made_up_for_along_with_it(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        add(missed="all")
        first = make_due(connection, days=3)
        second = (first + DAY).astimezone(UTC)
        enqueue_tick = scheduling.enqueue

        def fail_at_the_second(scheduled: Any, tick: datetime, connection: Connection) -> Any:
            result = enqueue_tick(scheduled, tick, connection)
            if tick == second:
                connection.execute("SELECT 1 / 0")
            return result

        monkeypatch.setattr(scheduling, "enqueue", fail_at_the_second)
        with heard(signals.schedule_failed, "error") as failed:
            do(duty_of(), connection)

        assert ticks() == [(first + n * DAY).astimezone(UTC) for n in (0, 2, 3)]
        assert [type(error) for error in failed] == [psycopg.errors.DivisionByZero]
        row = Schedule.objects.get()
        assert (row.ticked_at, row.next_at) == (first + 3 * DAY, first + 4 * DAY)
        assert "DivisionByZero" in row.error

    def test_since_its_channel_drops_it_says_so(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        a_duty = duty_of()
        add(channel="small")
        limit("small", "channel", max_size=1)
        Channel.objects.create(name="small", on_full="drop")
        enqueue(connection, channel="small")
        tick = make_due(connection)

        do(a_duty, connection)

        row = Schedule.objects.get()
        assert (row.ticked_at, row.next_at) == (None, tick + DAY)
        assert "ChannelFull" in row.error
        assert a_duty.did == {"enqueued": 0, "skipped": 1}

    def test_since_the_arguments_do_not_fit_says_so(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add(args=[1, 2, 3])
        make_due(connection)

        do(duty_of(), connection)

        assert Schedule.objects.get().error
        assert not Message.objects.exists()

    def test_says_so_without_what_is_redacted_of_its_arguments(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        Schedule.objects.create(
            name="s", task=log_in.name, kwargs={"password": "hunter2hunter2"}, every=DAY
        )
        make_due(connection)

        do(duty_of(), connection)

        error = Schedule.objects.get().error
        assert "no such user: [redacted]" in error
        assert "no such user: [redacted]" in caplog.text
        assert "hunter2" not in error + caplog.text

    def test_since_the_projects_code_left_a_transaction_open_says_so(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        Schedule.objects.create(name="s", task=take.name, args=[{"name": "opens"}], every=DAY)
        make_due(connection)

        do(duty_of(), connection)
        Group.objects.create(name="after")
        django.db.connection.close()
        names = [each.name for each in Group.objects.all()]
        Group.objects.all().delete()

        assert "TransactionLeftOpen" in Schedule.objects.get().error
        assert not Message.objects.exists()
        assert names == ["after"]

    def test_since_its_task_is_unknown_is_left_to_workers_that_know_it(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        old = duty_of()
        add(task="tests.jobs.of_tomorrow")
        tick = make_due(connection)

        naps = [do(old, connection) for _ in range(3)]
        row = Schedule.objects.get()
        assert (row.next_at, "of_tomorrow" in row.error) == (tick, True)
        assert max(naps) == SECOND  # and not in a hot loop
        Schedule.objects.update(task="tests.jobs.add")
        do(duty_of(), connection)

        assert ticks() == [tick.astimezone(UTC)]
        assert Schedule.objects.get().error == ""

    def test_since_another_session_locks_what_it_needs_is_tried_again(
        self,
        connection: Connection,
        other: Connection,
        duty_of: Callable[[], kind.Schedules],
        small: str,
    ) -> None:
        a_duty = duty_of()
        add("bounded", channel=small)
        add("other")
        tick = make_due(connection, "bounded")
        make_due(connection, "other")

        with other.transaction():
            enqueue(other, channel=small)
            do(a_duty, connection)
            done_meanwhile = list(Message.objects.values_list("metadata__schedule", flat=True))
            assert Schedule.objects.get(name="bounded").next_at == tick
        do(a_duty, connection)

        assert done_meanwhile == ["other"]
        assert Schedule.objects.get(name="bounded").ticked_at == tick

    def test_since_another_session_locks_what_it_needs_is_said_once_it_is_a_minute_late(
        self,
        connection: Connection,
        other: Connection,
        duty_of: Callable[[], kind.Schedules],
        small: str,
    ) -> None:
        a_duty = duty_of()
        add(channel=small)

        with heard(signals.schedule_failed, "name") as failed, other.transaction():
            enqueue(other, channel=small)
            Schedule.objects.update(next_at=datetime.now(UTC) - 30 * SECOND)
            do(a_duty, connection)
            at_first = (Schedule.objects.get().error, list(failed))
            Schedule.objects.update(next_at=datetime.now(UTC) - 61 * SECOND)
            do(a_duty, connection)
            do(a_duty, connection)
        error = Schedule.objects.get().error
        do(a_duty, connection)

        assert at_first == ("", [])
        assert failed == ["s"]
        assert error.startswith("LockNotAvailable: The room of the channel 'small' is locked: pid ")
        assert Schedule.objects.get().error == ""

    def test_since_another_session_locks_what_it_needs_is_said_when_it_is_skipped_as_missed(
        self,
        connection: Connection,
        other: Connection,
        duty_of: Callable[[], kind.Schedules],
        small: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        a_duty = duty_of()
        add(channel=small, missed="skip")
        Schedule.objects.update(next_at=datetime.now(UTC) - 30 * SECOND)

        with heard(signals.schedule_failed, "name") as failed:
            with other.transaction():
                enqueue(other, channel=small)
                do(a_duty, connection)
                at_first = (Schedule.objects.get().error, list(failed))
            pass_a_minute(connection, monkeypatch)
            do(a_duty, connection)

        assert at_first == ("", [])
        assert failed == ["s"]
        assert "TickMissed" in Schedule.objects.get().error
        assert a_duty.did == {"enqueued": 0, "skipped": 1}

    def test_since_its_task_is_unknown_says_so_still_when_it_is_skipped_as_missed(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
    ) -> None:
        add(task="tests.jobs.of_tomorrow", missed="skip")
        Schedule.objects.update(next_at=datetime.now(UTC) - 30 * SECOND)
        do(duty_of(), connection)
        tick = make_due(connection, days=1)

        do(duty_of(), connection)

        row = Schedule.objects.get()
        assert row.next_at == tick + 2 * DAY
        assert "of_tomorrow" in row.error

    def test_since_another_session_locks_what_many_need_does_not_keep_the_other_duties_for_long(
        self,
        connection: Connection,
        other: Connection,
        duty_of: Callable[[], kind.Schedules],
    ) -> None:
        limit("small", "channel", max_size=99)
        names = [f"bounded {number}" for number in range(8)]
        for name in names:
            add(name, channel="small")
            make_due(connection, name, days=1)
        add("other")
        make_due(connection, "other")

        with other.transaction():
            enqueue(other, channel="small")
            began = monotonic()
            do(duty_of(), connection)
            took = monotonic() - began
            assert Message.objects.get().metadata["schedule"] == "other"

        assert took < 2  # half a second for the first of them; for each it would be four

    def test_since_another_session_locks_what_it_needs_is_not_waited_for_first_each_time(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(kind, "ASIDE_IF_BUSY", 0)
        a_duty = duty_of()
        for days, name in enumerate(["later", "short", "blocked"]):
            add(name)
            make_due(connection, name, days=days)
        Schedule.objects.filter(name="later").update(paused=True)
        enqueue_tick = scheduling.enqueue

        def need_locks(scheduled: Any, tick: datetime, connection: Connection) -> Any:
            (patience,) = connection.execute("SHOW lock_timeout").fetchone() or [""]
            if scheduled.name == "blocked" or patience == engine.HASTE:
                raise psycopg.errors.LockNotAvailable
            return enqueue_tick(scheduled, tick, connection)

        monkeypatch.setattr(scheduling, "enqueue", need_locks)
        do(a_duty, connection)
        assert not Message.objects.exists()
        Schedule.objects.update(paused=False)
        do(a_duty, connection)
        assert Message.objects.filter(metadata__schedule="later").exists()
        for _ in range(50):  # who of those that wait is first, chance says
            do(a_duty, connection)

        assert Message.objects.filter(metadata__schedule="short").exists()
        assert not Message.objects.filter(metadata__schedule="blocked").exists()

    def test_that_has_no_next_tick_harms_no_other(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        add("broken", cron="at noon")
        add("other")
        make_due(connection, "other")
        a_duty = duty_of()

        with heard(signals.schedule_failed, "name") as failed:
            for _ in range(3):
                do(a_duty, connection)

        assert failed == ["broken"]
        assert "no cron line" in Schedule.objects.get(name="broken").error
        assert Message.objects.get().metadata["schedule"] == "other"


def declared(name: str = "nightly", **changed: Any) -> DeclaredSchedule:
    """A schedule as code has it."""
    given = {
        "task": "tests.jobs.add",
        "cron": "0 3 * * *",
        "every": None,
        "timezone": "UTC",
        "args": "[1]",
        "kwargs": "{}",
        "missed": "once",
        "overlap": "allow",
    }
    return DeclaredSchedule(name=name, **{**given, **changed})


NIGHTLY = {"task": "tests.jobs.add", "when": "0 5 * * *", "args": [1]}
OLD, NEW = declared(cron="0 3 * * *"), declared(cron="0 4 * * *")


def let_pass(connection: Connection, seconds: int) -> None:
    """Have no process declare anything for so long."""
    connection.execute(
        "UPDATE pgqueue_schedule SET seen_at = clock_timestamp() - %s * interval '1 second'",
        [seconds],
    )


def lines() -> dict[str, str]:
    return dict(Schedule.objects.values_list("name", "cron"))


class TestDeclaring:
    def test_writes_what_code_has(self, connection: Connection) -> None:
        assert engine.declare(connection, [declared("a"), declared("b", cron="", every=DAY)]) == []

        a, b = Schedule.objects.order_by("name")
        assert (a.declared, a.cron, a.every, a.args) == (True, "0 3 * * *", None, [1])
        assert (b.cron, b.every, b.next_at) == ("", DAY, None)

    def test_again_changes_nothing_that_workers_or_operators_wrote(
        self, connection: Connection
    ) -> None:
        engine.declare(connection, [OLD])
        Schedule.objects.update(paused=True, next_at=LONG_AGO, ticked_at=LONG_AGO)

        for _ in range(2):
            let_pass(connection, 20)
            engine.declare(connection, [OLD])

        row = Schedule.objects.get()
        assert (row.paused, row.next_at, row.ticked_at) == (True, LONG_AGO, LONG_AGO)
        assert row.superseded == []

    def test_other_arguments_keeps_the_next_tick_and_another_time_does_not(
        self, connection: Connection
    ) -> None:
        engine.declare(connection, [OLD])
        Schedule.objects.update(next_at=LONG_AGO, paused=True)

        engine.declare(connection, [OLD._replace(args="[2]")])
        kept = Schedule.objects.get()
        engine.declare(connection, [NEW])
        changed = Schedule.objects.get()

        assert (kept.args, kept.next_at) == ([2], LONG_AGO)
        assert (changed.cron, changed.next_at, changed.paused) == ("0 4 * * *", None, True)

    @pytest.mark.parametrize(("ago", "is_kept"), [(5, True), (-5, False), (90, False)])
    def test_another_time_keeps_a_tick_that_is_due(
        self, connection: Connection, ago: int, is_kept: bool
    ) -> None:
        engine.declare(connection, [OLD])
        Schedule.objects.update(next_at=datetime.now(UTC) - ago * SECOND)

        engine.declare(connection, [NEW])

        assert (Schedule.objects.get().next_at is not None) == is_kept

    def test_leaves_alone_what_an_operator_added_under_that_name(
        self, connection: Connection
    ) -> None:
        add("nightly", cron="0 5 * * *")

        assert engine.declare(connection, [OLD]) == ["nightly"]
        assert lines() == {"nightly": "0 5 * * *"}

    def test_by_old_workers_does_not_undo_what_new_ones_say(self, connection: Connection) -> None:
        for each in (OLD, NEW):
            engine.declare(connection, [each])

        # They go on side by side, and one of the old ones starts again.
        for seconds in (5, 30, 59):
            let_pass(connection, seconds)
            engine.declare(connection, [OLD])
            assert lines() == {"nightly": "0 4 * * *"}
            engine.declare(connection, [NEW])

        assert lines() == {"nightly": "0 4 * * *"}

    def test_by_code_that_was_rolled_back_holds_once_the_new_workers_are_gone(
        self, connection: Connection
    ) -> None:
        for each in (OLD, NEW):
            engine.declare(connection, [each])

        let_pass(connection, 61)
        engine.declare(connection, [OLD])
        engine.declare(connection, [NEW])

        assert lines() == {"nightly": "0 3 * * *"}

    def test_after_the_clock_was_set_back_keeps_other_versions_out(
        self, connection: Connection
    ) -> None:
        for each in (OLD, NEW):
            engine.declare(connection, [each])
        let_pass(connection, -3600)

        engine.declare(connection, [NEW])  # as its workers go on to do

        seen_at = Schedule.objects.get().seen_at
        assert seen_at
        assert seen_at < datetime.now(UTC) + SECOND
        let_pass(connection, 61)  # they are gone
        engine.declare(connection, [OLD])
        assert lines() == {"nightly": "0 3 * * *"}

    def test_keeps_in_mind_no_more_than_twenty_versions(self, connection: Connection) -> None:
        for hour in range(24):
            engine.declare(connection, [declared(cron=f"{hour} {hour} * * *")])

        assert len(Schedule.objects.get().superseded) == 20

    def test_by_two_in_any_order_waits_for_the_first_row(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        both = [declared("a"), declared("b")]
        engine.declare(connection, both)
        changed = [each._replace(args="[2]") for each in both]

        with other.transaction(force_rollback=True):
            other.execute("UPDATE pgqueue_schedule SET paused = true WHERE name = 'a'")
            waiting = step(engine.declare, connection, changed[::-1])
            waiting.waits()
            # It has not locked the other one: the other meets no deadlock.
            other.execute("SELECT FROM pgqueue_schedule WHERE name = 'b' FOR UPDATE NOWAIT")

        with suppress(psycopg.errors.LockNotAvailable):  # had all this taken half a second
            assert waiting.result() == []

    def test_does_not_wait_for_an_operator_who_takes_time(
        self, connection: Connection, other: Connection, duty_of: Callable[[], kind.Schedules]
    ) -> None:
        connection.execute("SET lock_timeout = 0")  # tests have one of their own
        engine.declare(connection, [OLD])
        add("by hand")
        make_due(connection, "by hand")

        with other.transaction():
            other.execute("UPDATE pgqueue_schedule SET paused = true WHERE name = 'nightly'")
            with override_settings(PGQUEUE={"SCHEDULES": {"nightly": NIGHTLY}}):
                do(duty_of(), connection)

        assert Message.objects.get().metadata["schedule"] == "by hand"

    def test_forgets_what_no_code_had_for_a_month(self, connection: Connection) -> None:
        engine.declare(connection, [OLD])
        add("by hand")
        let_pass(connection, 31 * 24 * 3600)

        engine.declare(connection, [declared("another")])

        assert set(lines()) == {"another", "by hand"}

    def test_forgets_nothing_while_retention_is_behind_a_clock_that_has_jumped(
        self, connection: Connection
    ) -> None:
        engine.declare(connection, [OLD])
        duty.due(connection, ["retention"])
        retention.advance(connection)
        connection.execute("UPDATE pgqueue_duty SET upto = upto - interval '40 days'")
        let_pass(connection, 40 * 24 * 3600)

        engine.declare(connection, [declared("another")])

        assert len(lines()) == 2


class TestTheCode:
    @pytest.fixture
    def entries(self) -> Any:
        """A function that puts schedules into the settings."""

        def override(**entries: Any) -> override_settings:
            return override_settings(PGQUEUE={"SCHEDULES": entries})

        return override

    def test_is_declared_by_each_worker_whichever_does_the_ticks(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], entries: Any
    ) -> None:
        duty.due(connection, ["schedule"])
        duty.done(connection, "schedule", again_in=DAY)
        session = Session("default", name="test")

        with entries(nightly={"task": "tests.jobs.add", "when": "@daily", "args": [1]}):
            Duties(session, [duty_of()], lease=LEASE, on_done=lambda: None).tick()
        session.close()

        row = Schedule.objects.get()
        assert (row.name, row.task, row.cron, row.args) == (
            "nightly",
            "tests.jobs.add",
            "@daily",
            [1],
        )

    def test_that_can_not_be_read_keeps_none_of_the_others_from_ticking(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], entries: Any
    ) -> None:
        add()
        make_due(connection)
        with (
            closing(Session("default", name="test")) as session,
            entries(broken={"task": "tests.jobs.gone", "when": "@daily"}),
        ):
            Duties(session, [duty_of()], lease=LEASE, on_done=lambda: None).tick()

        assert Message.objects.get().metadata["schedule"] == "s"

    def test_that_others_do_not_have_is_looked_for_by_those_that_have_it(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], entries: Any
    ) -> None:
        # One without it has just done the duty, and found nothing.
        entry = {"task": "tests.jobs.add", "when": DAY, "args": [1]}
        session = Session("default", name="test")
        with entries(ours=entry):
            service = Duties(session, [duty_of()], lease=LEASE, on_done=lambda: None)
            service.tick()
        make_due(connection, "ours")
        duty.done(connection, "schedule", again_in=DAY)

        service.tick()
        session.close()

        assert Message.objects.count() == 1

    def test_that_is_older_than_a_schedules_arguments_leaves_its_ticks_to_the_newer(
        self,
        connection: Connection,
        duty_of: Callable[[], kind.Schedules],
        entries: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        entry = {"task": "tests.jobs.add", "when": DAY, "args": [1]}
        old, new = duty_of(), duty_of()
        with entries(ours=entry):
            do(old, connection)
        with entries(ours={**entry, "args": [1, 2]}):
            do(new, connection)
        tick = make_due(connection, "ours")

        with monkeypatch.context() as older:
            older.setattr(scheduling, "enqueue", Mock(side_effect=ValueError("too many")))
            do(old, connection)
        left = Schedule.objects.get().next_at
        do(new, connection)

        assert left == tick
        assert ticks() == [tick.astimezone(UTC)]

    def test_has_the_name_of_an_operators_schedule_that_fails_and_goes_on_all_the_same(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], entries: Any
    ) -> None:
        duty = duty_of()
        add("ours", args=["too", "many", "of", "them"])
        with entries(ours={"task": "tests.jobs.add", "when": DAY, "args": [1, 2]}):
            do(duty, connection)
            tick = make_due(connection, "ours")
            with patch.object(scheduling, "enqueue", side_effect=ValueError("too many")):
                do(duty, connection)

        assert Schedule.objects.get().next_at > tick

    def test_that_a_schedule_vanished_from_does_not_do_its_ticks(
        self, connection: Connection, duty_of: Callable[[], kind.Schedules], entries: Any
    ) -> None:
        entry = {"task": "tests.jobs.add", "when": DAY, "args": [1]}
        with entries(gone=entry):
            old = duty_of()
            do(old, connection)
        make_due(connection, "gone")
        new = duty_of()

        do(new, connection)
        assert not Message.objects.exists()
        do(old, connection)

        assert Message.objects.count() == 1

    def test_is_of_the_database_that_its_tasks_are_in(self, entries: Any) -> None:
        with entries(nightly={"task": "tests.jobs.add", "when": "@daily", "args": [1]}):
            assert [each.name for each in scheduling.declared("default")] == ["nightly"]
            assert scheduling.declared("second") == []

    def test_may_give_a_task_several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        schedules = [Pgqueue("@daily", args=[1]), Pgqueue(60, name="often", kwargs={"a": 2})]
        task = replace(jobs.add, schedule=as_schedules(schedules))
        monkeypatch.setattr(registry, "each", lambda: [task])

        often, daily = scheduling.declared("default")

        assert (often.name, often.every, often.kwargs) == (
            "often",
            timedelta(minutes=1),
            '{"a": 2}',
        )
        assert (daily.name, daily.cron, daily.args) == ("tests.jobs.add", "@daily", "[1]")

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"task": "tests.jobs.gone"}, "'nightly'.*No task is named 'tests.jobs.gone'"),
            ({"task": "tests.jobs.add", "args": []}, "'nightly': .*tests.jobs.add"),
            ({"task": "tests.jobs.add", "args": [object()]}, "'nightly': .*tests.jobs.add"),
        ],
    )
    def test_that_can_not_be_is_refused(
        self, entries: Any, entry: dict[str, Any], said: str
    ) -> None:
        with (
            entries(nightly={"when": "@daily", **entry}),
            pytest.raises(InvalidSchedule, match=said),
        ):
            scheduling.declared("default")

    def test_that_has_a_name_twice_is_refused(
        self, entries: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = replace(jobs.add, schedule=as_schedules(Pgqueue("@daily", args=[1], name="nightly")))
        monkeypatch.setattr(registry, "each", lambda: [task])
        entry = {"task": "tests.jobs.add", "when": "@daily", "args": [1]}

        with entries(nightly=entry), pytest.raises(InvalidSchedule, match="2 .* named 'nightly'"):
            scheduling.declared("default")


class TestRunningOneNow:
    def test_enqueues_its_message_and_leaves_its_ticks(self, connection: Connection) -> None:
        add(paused=True)
        tick = make_due(connection)

        result = scheduling.run("s")

        message = Message.objects.get()
        assert (str(message.pk), message.metadata) == (result.id, {"schedule": "s"})
        row = Schedule.objects.get()
        assert (row.next_at, row.paused, row.ticked_at) == (tick, True, None)

    def test_that_skips_overlaps_returns_the_one_that_lives(self) -> None:
        add(overlap="skip")

        first, second = scheduling.run("s"), scheduling.run("s")

        assert (first.id, first.came_of, second.came_of) == (second.id, "stored", "existing")

    def test_that_is_dropped_says_so(self, connection: Connection) -> None:
        add(channel="small")
        limit("small", "channel", max_size=1)
        Channel.objects.create(name="small", on_full="drop")
        enqueue(connection, channel="small")

        with pytest.raises(ChannelFull):
            scheduling.run("s")

    def test_that_is_not_there_says_so(self) -> None:
        with pytest.raises(InvalidSchedule, match="no schedule 's'"):
            scheduling.run("s")
