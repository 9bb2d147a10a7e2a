"""A duration from now is of seconds, in whatever time zone a session is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection as django_connection

from pgqueue.engine import held, lease, received, settle, steps
from pgqueue.engine.settle import Deferral, Pause, Suspension
from pgqueue.engine.steps import StoredStep
from pgqueue.engine.values import Claim, exact, exact_array
from pgqueue.models import Channel, Dedupe, Message, Step, TaskPause
from pgqueue.testing import advance
from tests.factories import Connection, enqueue, failure, hold, limit, run, store

BERLIN = ZoneInfo("Europe/Berlin")


def across() -> timedelta:
    """Return days from now on, of which one has 23 or 25 hours."""
    now = datetime.now(UTC)
    offset = now.astimezone(BERLIN).utcoffset()
    days = [timedelta(days=number) for number in range(1, 365)]
    return next(each for each in days if (now + each).astimezone(BERLIN).utcoffset() != offset)


SPAN = across()


@pytest.fixture
def connection(connection: Connection) -> Connection:
    connection.execute("SET TimeZone TO 'Europe/Berlin'")
    return connection


@contextmanager
def in_berlin() -> Iterator[None]:
    """Have Django's session write there; it reads the times in its own zone alone."""
    with django_connection.cursor() as cursor:
        cursor.execute("SET TimeZone TO 'Europe/Berlin'")
        yield
        cursor.execute("SET TimeZone TO 'UTC'")


def is_exact(found: datetime | None) -> bool:
    """Return whether a time is so long after now, and not an hour before or after that."""
    assert found is not None
    return abs(found - datetime.now(UTC) - SPAN) < timedelta(minutes=20)


def message() -> Message:
    return Message.objects.get()


@pytest.mark.parametrize("ids", [1, 2], ids=["one", "several"])
@pytest.mark.parametrize(
    ("options", "column"),
    [
        ({"run_after": SPAN}, "run_at"),
        ({"expires_after": SPAN}, "expires_at"),
        ({"expires_after": SPAN, "ordered": True}, "expires_at"),
        ({"held_for": SPAN}, "lease_until"),
    ],
    ids=["a delay", "an expiry", "an expiry of an ordered one", "a hold"],
)
def test_holds_for_the_times_of_messages(
    connection: Connection, ids: int, options: dict[str, Any], column: str
) -> None:
    enqueue(connection, ids, **options)

    assert all(is_exact(each) for each in Message.objects.values_list(column, flat=True))


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]], ids=["one", "several"])
def test_holds_for_dedupe_keys(connection: Connection, keys: list[str]) -> None:
    store(connection, [""] * len(keys), payloads=["{}"] * len(keys), dedupe_keys=keys,
          dedupe_for=SPAN, run_after=SPAN)  # fmt: skip

    assert all(is_exact(each) for each in Dedupe.objects.values_list("expires_at", flat=True))
    assert all(is_exact(each) for each in Message.objects.values_list("run_at", flat=True))


def test_holds_for_the_longest_wait(connection: Connection) -> None:
    for _ in range(2):
        store(connection, dedupe_keys=["a"], replaces=True, longest_wait=SPAN, run_after=2 * SPAN)

    assert is_exact(message().run_at)


def test_holds_for_ids_from_outside(connection: Connection) -> None:
    received.remember(connection, ["a"], lasting=SPAN)

    assert is_exact(Dedupe.objects.get().expires_at)


def retry(connection: Connection, held: Claim) -> None:
    settle.retry(connection, [failure(held)._replace(delay=SPAN)])


def defer(connection: Connection, held: Claim) -> None:
    settle.defer(connection, [Deferral(held, SPAN)])


def sleep(connection: Connection, held: Claim) -> None:
    row = {"name": "a", "number": 1, "kind": "sleep", "state": "waiting"}
    wait = Suspension(held, json.dumps([row]), SPAN, None, False, False, False)
    settle.suspend(connection, [wait])
    assert is_exact(Step.objects.get().until)


@pytest.mark.parametrize("end", [retry, defer, sleep])
def test_holds_for_the_next_run(
    connection: Connection, end: Callable[[Connection, Claim], None]
) -> None:
    end(connection, run(connection)[0])

    assert is_exact(message().run_at)


def test_holds_for_pauses(connection: Connection) -> None:
    settle.pause(connection, {Pause(channel="a"): SPAN, Pause(task="t"): SPAN})

    assert is_exact(Channel.objects.get().paused_until)
    assert is_exact(TaskPause.objects.get().until)


@pytest.mark.parametrize("is_governed", [False, True])
def test_holds_for_leases_of_a_consumer(connection: Connection, is_governed: bool) -> None:
    if is_governed:
        limit(max_running=5)

    run(connection, lease=SPAN)

    assert is_exact(message().lease_until)


def test_holds_for_leases_and_holds_that_are_extended(connection: Connection) -> None:
    one, two = run(connection, 2)
    [id] = hold(connection)

    assert lease.extend(connection, [two], lease=SPAN)
    assert is_exact(Message.objects.get(pk=two.id).lease_until)
    lease.prolong(connection, one, SPAN)
    lease.checkpoint(connection, two, progress=None, extend=SPAN)
    held.extend(connection, [id], hold=SPAN)

    assert all(is_exact(each) for each in Message.objects.values_list("lease_until", flat=True))


def test_holds_for_the_wait_of_a_step(connection: Connection) -> None:
    [its] = run(connection)
    step = StoredStep("a", 1, "sleep", function="", state="waiting", tries=1)

    assert steps.store(connection, its, step, delay=SPAN) == "stored"

    assert is_exact(Step.objects.get().until)


def test_holds_for_a_pause_by_django(connection: Connection) -> None:
    Channel.objects.create(name="a")

    with in_berlin():
        Channel.objects.pause(SPAN)

    assert is_exact(Channel.objects.get().paused_until)


def test_holds_for_time_that_a_test_has_pass(connection: Connection) -> None:
    enqueue(connection, run_after=2 * SPAN)

    with in_berlin():
        advance(SPAN)

    assert is_exact(message().run_at)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=1), "86400.000000 seconds"),
        (timedelta(microseconds=1), "0.000001 seconds"),
        (timedelta(days=-1, microseconds=1), "-86399.999999 seconds"),
        (timedelta(days=36_525, microseconds=-1), "3155759999.999999 seconds"),
        (timedelta.max, "999999999 days +86399 seconds"),
        (timedelta.min, "-999999999 days +0 seconds"),
    ],
)
def test_is_an_interval_without_days(connection: Connection, span: timedelta, text: str) -> None:
    assert exact(span) == text

    row = connection.execute(
        "SELECT %(one)s::interval = %(given)s, (%(all)s::interval[])[1] = %(given)s",
        {"one": exact(span), "all": exact_array([span, None]), "given": span},
    ).fetchone()

    assert row == (True, True) or abs(span) > timedelta(days=36_525)
