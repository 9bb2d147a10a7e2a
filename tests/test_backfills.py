"""Rows that were staged become messages once each, at a rate, wherever it is interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgqueue import BackfillConflict, Channel, InvalidArguments, Task, task
from pgqueue.database.connections import connect
from pgqueue.engine import backfill as engine
from pgqueue.engine import settle, staged
from pgqueue.models import Backfill, Message, Staged
from pgqueue.operating import backfills
from tests.factories import Connection, claim, done, limit, refusing
from tests.stepping import Stepper

pytestmark = pytest.mark.django_db(transaction=True)


def clock(sleep: Callable[[float], None]) -> SimpleNamespace:
    """A module `time` for one module alone: other threads of this process sleep, too."""
    return SimpleNamespace(sleep=sleep, monotonic=time.monotonic)


@task(key=lambda number, **_: f"k{number % 2}", priority=7)
def bill(number: int, at: date | None = None, amount: Decimal = Decimal(0)) -> None:
    """A task with hints, options and a function for its key."""


@task(key=lambda email, **_: email.lower())
def greet(email: str | None, number: int) -> None: ...


@task(dedupe_key=lambda email, **_: email)
def greet_once(email: str | None, number: int) -> None: ...


@task(dedupe_key=lambda **_: "x", on_conflict="raise")
def greet_alone(email: str | None, number: int) -> None: ...


@task(key=lambda number: f"k{number}", ordered=True)
def bill_in_order(number: int) -> None: ...


def _no_tenant() -> str:
    raise AttributeError("tenant")


silent = SimpleNamespace(current=_no_tenant, enter=nullcontext)


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = connect("default", name="test")
    yield connection
    connection.close()


def stage(connection: Connection, *rows: dict[str, Any]) -> int:
    attempt = staged.begin(connection)
    for number, row in enumerate(rows):
        connection.execute(
            "INSERT INTO pgqueue_staged (attempt, number, payload) VALUES (%s, %s, %s)",
            [attempt, number, json.dumps({"args": [], "kwargs": row})],
        )
    return attempt


def begin(connection: Connection, *parts: list[dict[str, Any]], of: Task[..., Any] = bill) -> None:
    attempts = [stage(connection, *rows) for rows in parts]
    total = sum(map(len, parts))
    backfills.begin(of, "b", source="s", attempts=attempts, total=total)


def release(of: Task[..., Any] = bill, **options: Any) -> None:
    backfills.release(of, "b", **{"rate": None, "batch": 2, **options})


def numbers() -> list[int]:
    found = Message.objects.order_by("pk").values_list("payload", flat=True)
    return [payload["kwargs"]["number"] for payload in found]


def test_each_row_is_a_call_with_the_options_of_its_task(connection: Connection) -> None:
    begin(connection, [{"number": 3, "at": "2026-01-02", "amount": "1.50"}])

    release()

    message = Message.objects.get()
    assert (message.task, message.key, message.priority) == (bill.name, "k1", 7)
    _, arguments = bill.codec.decode(json.dumps(message.payload))
    assert arguments == {"number": 3, "at": date(2026, 1, 2), "amount": Decimal("1.50")}


def test_rows_come_in_their_order_and_nothing_is_left_of_them(connection: Connection) -> None:
    rows = [{"number": number} for number in range(9)]
    said: list[int] = []
    begin(connection, rows[:3], [], rows[3:7], rows[7:])

    release(progress=said.append)

    assert numbers() == list(range(9))
    assert sum(said) == 9
    assert not Staged.objects.exists()
    record = Backfill.objects.get()
    assert (record.done, record.total) == (9, 9)
    assert record.ended_at is not None


def test_it_goes_on_where_it_was_interrupted(connection: Connection) -> None:
    begin(connection, [{"number": number} for number in range(7)])

    class Interrupted(Exception):
        pass

    def interrupt(count: int) -> None:
        raise Interrupted

    for _ in range(3):
        with pytest.raises(Interrupted):
            release(progress=interrupt)
    assert numbers() == list(range(6))
    release()

    assert numbers() == list(range(7))


def test_once_done_it_does_nothing(connection: Connection) -> None:
    begin(connection, [{"number": 1}])
    release()
    release()

    assert numbers() == [1]
    found = backfills.begun(bill, "b", source="s")
    assert found is not None
    assert found.ended_at is not None


def test_two_at_once_share_the_rows(connection: Connection) -> None:
    begin(connection, [{"number": number} for number in range(4)])
    other, third = connect("default", name="other"), connect("default", name="third")
    with other, third, Stepper(observer=connection) as stepper:
        with third.transaction():
            first = engine.take(third, "b", limit=2) or []
            second = stepper.start(_take, other)
            second.waits()
        payloads = [*first, *second.result()]

    assert [json.loads(each)["kwargs"]["number"] for each in payloads] == [0, 1, 2, 3]


def _take(connection: psycopg.Connection[Any]) -> list[str] | None:
    with connection.transaction():
        return engine.take(connection, "b", limit=2)


class TestARefusedRow:
    REFUSED = """NEW.payload::text LIKE '%"number": 4%'"""

    def test_is_an_error_that_names_it(self, connection: Connection) -> None:
        begin(connection, [{"number": number} for number in range(7)])

        with (
            refusing(connection, "pgqueue_message", self.REFUSED),
            pytest.raises(InvalidArguments, match='refused The row.*"number": 4'),
        ):
            release(batch=3)

        assert numbers() == [0, 1, 2]

    def test_is_skipped_if_it_is_to_be(self, connection: Connection) -> None:
        begin(connection, [{"number": number} for number in range(7)])
        skipped: list[InvalidArguments] = []

        with refusing(connection, "pgqueue_message", self.REFUSED):
            release(batch=3, skip=skipped.append)

        assert numbers() == [0, 1, 2, 3, 5, 6]
        assert len(skipped) == 1


class TestAnUnfitRow:
    ROWS = [{"number": 1}, {"number": 2}, {"number": 3, "at": "tomorrow"}, {"number": 4}]

    def test_is_an_error_that_shows_it(self, connection: Connection) -> None:
        begin(connection, self.ROWS)

        with pytest.raises(InvalidArguments, match=r"argument 'at' .*The row: .*tomorrow"):
            release()

        assert numbers() == [1, 2]

    def test_is_left_out_where_that_is_asked_for(self, connection: Connection) -> None:
        said: list[InvalidArguments] = []
        begin(connection, self.ROWS)

        release(skip=said.append)

        assert numbers() == [1, 2, 4]
        assert len(said) == 1


class TestARowWithoutAKey:
    """The task takes its arguments, but its function for a key does not."""

    ROWS = [{"email": email, "number": number} for number, email in enumerate(["A", "", None, "B"])]

    def test_is_an_error_that_shows_it(self, connection: Connection) -> None:
        begin(connection, self.ROWS, of=greet)

        with pytest.raises(InvalidArguments, match=r"AttributeError: .* The row: .*null"):
            release(greet)

        assert numbers() == [0, 1]

    @pytest.mark.parametrize(("of", "left"), [(greet, [0, 1, 3]), (greet_once, [0, 2, 3])])
    def test_is_left_out_where_that_is_asked_for(
        self, connection: Connection, of: Task[..., Any], left: list[int]
    ) -> None:
        said: list[InvalidArguments] = []
        begin(connection, self.ROWS, of=of)

        release(of, skip=said.append)

        assert sorted(numbers()) == left
        assert len(said) == 1

    def test_is_no_fault_of_a_row_where_the_project_does_not_tell_its_tenant(
        self, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": f"{__name__}.silent"}
        said: list[InvalidArguments] = []
        begin(connection, self.ROWS, of=greet_once)

        with pytest.raises(AttributeError):
            release(greet_once, skip=said.append)

        assert (said, numbers()) == ([], [])

    def test_whose_key_another_message_has_is_left_out(self, connection: Connection) -> None:
        said: list[InvalidArguments] = []
        begin(connection, self.ROWS, of=greet_alone)

        release(greet_alone, skip=said.append)

        assert numbers() == [0]
        assert len(said) == 3


def test_a_batch_has_no_more_ordered_keys_than_a_transaction_may_lock(
    connection: Connection,
) -> None:
    counts: list[int] = []
    begin(connection, [{"number": number} for number in range(1200)], of=bill_in_order)

    release(bill_in_order, batch=1200, progress=counts.append)

    assert numbers() == list(range(1200))
    assert max(counts) == 300


def test_the_rate_is_not_exceeded(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    counts: list[int] = []
    now = 1000.0

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(backfills, "time", clock(sleep))
    monkeypatch.setattr("pgqueue.operating.backfills.time.monotonic", lambda: now)
    begin(connection, [{"number": number} for number in range(10)])

    release(rate=4.0, batch=100, progress=counts.append)

    assert counts == [4, 4, 2]
    assert sum(slept) == pytest.approx(10 / 4)


@pytest.mark.parametrize("on_full", ["refuse", "drop"])
def test_a_full_channel_is_waited_for(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, on_full: str
) -> None:
    limit(scope="channel", max_size=2)
    Channel("default").configure(on_full=on_full)
    waits = []

    def make_room(seconds: float) -> None:
        waits.append(seconds)
        settle.complete(connection, [done(each) for each in claim(connection)])

    monkeypatch.setattr(backfills, "time", clock(make_room))
    begin(connection, [{"number": number} for number in range(5)])

    release()

    assert numbers() == [4]
    assert len(waits) == 2


def test_a_batch_that_is_larger_than_a_channels_size_is_divided(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(scope="channel", max_size=5)
    counts: list[int] = []
    said: list[InvalidArguments] = []
    waits: list[float] = []

    def make_room(seconds: float) -> None:
        waits.append(seconds)
        assert len(waits) < 20
        settle.complete(connection, [done(each) for each in claim(connection)])

    monkeypatch.setattr(backfills, "time", clock(make_room))
    rows: list[dict[str, Any]] = [{"number": number} for number in range(20)]
    begin(connection, [{"number": 99, "at": "tomorrow"}, *rows])

    release(batch=100, skip=said.append, progress=counts.append)

    assert sum(counts) == 21
    assert max(counts) > 1
    assert len(said) == 1
    assert numbers() == list(range(numbers()[0], 20))


def test_a_name_is_of_one_task_and_source(connection: Connection) -> None:
    begin(connection, [{"number": 1}])

    with pytest.raises(BackfillConflict, match="'b' is of tests.test_backfills.bill, from s"):
        backfills.begun(bill, "b", source="elsewhere")
    with pytest.raises(BackfillConflict, match="Another process has begun"):
        begin(connection)
    assert backfills.begun(bill, "c", source="s") is None


def test_rows_are_kept_until_it_is_done(connection: Connection) -> None:
    attempt = stage(connection, {"number": 1})
    week = 7 * 24 * 3600 * 1000 << 22
    Staged.objects.update(attempt=attempt - week)
    backfills.begin(bill, "b", source="s", attempts=[attempt - week], total=1)

    assert staged.forget(connection) == 0
    Backfill.objects.update(ended_at=datetime.now(UTC))
    assert staged.forget(connection) == 1
