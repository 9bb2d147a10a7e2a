"""The tables of the first version, filled by it, are migrated, and today's worker goes on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from pgqueue import Channel, receive
from pgqueue.database.sql_files import load
from pgqueue.models import History, Message, Schedule
from pgqueue.states import Outcome, State
from tests.docs.blocks import ROOT
from tests.eventually import eventually
from tests.processes import manage
from tests.unmigrated import empty_database, migrate

pytestmark = pytest.mark.slow

DUMP = Path(__file__).with_name("schema.sql")
PRODUCER = load(f"{__package__}.producer")
PUBLIC = re.compile(r"^\| `(pgqueue_\w+)` \| (.*) \|$", re.M)
LIVING = {State.DEAD: 1, State.HELD: 2, State.RUNNING: 1, State.READY: 7, State.SCHEDULED: 2}
ENDED = {Outcome.SUCCEEDED: 3, Outcome.CANCELLED: 1, Outcome.EXPIRED: 1}


@pytest.fixture
def first_version(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database as the first version has left it."""
    with django_db_blocker.unblock(), empty_database():
        with connection.cursor() as cursor:
            cursor.execute(DUMP.read_text("utf-8"))
        connection.close()  # with what the dump has set in its session
        yield


def states() -> Counter[str]:
    return Counter(Message.objects.values_list("state", flat=True))


def outcomes() -> Counter[str]:
    return Counter(History.objects.values_list("outcome", flat=True))


def drain() -> None:
    """Run everything, also what waits for its time, by a worker of today."""
    Message.objects.filter(state=State.SCHEDULED).run_now()
    settings = "tests.upgrade.settings"
    done = manage("runworker", "--drain", DJANGO_SETTINGS_MODULE=settings)
    assert done.returncode == 0, done.stderr


def is_dispatched() -> bool:
    """Run everything, and return whether the event that waited has a message now."""
    drain()
    return Message.objects.filter(channel="orders").exists()


@pytest.mark.usefixtures("first_version")
def test_what_the_first_version_has_left_is_migrated_and_ended_by_todays_worker() -> None:
    migrate()
    assert (states(), outcomes()) == (LIVING, ENDED)

    held = Message.objects.get(state=State.HELD, flow_id=None)
    Channel("default").replay()
    Channel("mail").replay()
    eventually(is_dispatched, within=60)

    assert states() - Counter({State.READY: 2, State.HELD: 1}) == {}
    assert outcomes()[Outcome.SUCCEEDED] == ENDED[Outcome.SUCCEEDED] + 11
    results = History.objects.filter(outcome=Outcome.SUCCEEDED)
    assert sorted(results.filter(task__endswith=".add").values_list("result", flat=True)) == [
        3, 7, 15, 19, 23, 27, 31, 100, 105,
    ]  # fmt: skip
    assert results.get(task__endswith=".die").result == 2  # its worker had died
    assert set(results.filter(task__contains=".fail").values_list("result", flat=True)) == {
        "replayed"
    }
    in_order = results.filter(ordered=True).order_by("started_at")
    assert [each.result for each in in_order] == [19, 23]
    with receive("raw") as deliveries:
        [raw] = deliveries
        assert (raw.payload, raw.body, raw.key) == ({"to": "ada"}, b"\x00\x01", "k")
        raw.complete()
    with receive("orders") as deliveries:
        [order] = deliveries
        assert order.payload["payload"] == {"total": 50}
        order.complete()
    assert held.state == State.HELD
    assert Schedule.objects.get().paused
    assert Channel("mail").policies()[0].max_running == 2


@pytest.mark.usefixtures("first_version")
def test_a_producer_of_the_first_version_goes_on_after_the_migration() -> None:
    migrate()

    with connection.cursor() as cursor:
        for statement in PRODUCER.values():
            cursor.execute(statement)
            assert cursor.fetchone() is not None
    drain()

    results = History.objects.filter(outcome=Outcome.SUCCEEDED, task__endswith=".add")
    assert set(results.values_list("result", flat=True)) >= {21, 22, 23, 24}


@pytest.mark.usefixtures("first_version")
def test_columns_that_are_promised_are_there_before_and_after() -> None:
    text = (ROOT / "docs/stability.md").read_text("utf-8")
    promised = {
        (table, column)
        for table, cells in PUBLIC.findall(text)
        for column in re.findall(r"`(\w+)`", cells)
    }
    before = columns()
    migrate()

    assert len(promised) > 40
    assert promised <= before
    assert before <= columns()  # nothing that an old worker knows is gone


def columns() -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name !~ '_[0-9]{8}$'"
        )
        return {(table, column) for table, column in cursor.fetchall()}
