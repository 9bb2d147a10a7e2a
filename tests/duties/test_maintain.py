"""`manage.py pgqueue_maintain`: each duty once, by one who is no worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from pgqueue.database.connections import connect
from pgqueue.duties import maintain
from pgqueue.duties.all import all_duties
from pgqueue.duties.partitions import DID
from pgqueue.engine import (
    event_partitions,
    expire,
    groups,
    lease,
    partitioning,
    partitions,
    promote,
    retention,
    run_logs,
    settle,
)
from pgqueue.engine.values import Position
from pgqueue.events import subscribing
from pgqueue.exceptions import TaskResultDoesNotExist
from pgqueue.models import Duty, History, Message, Schedule
from pgqueue.states import State
from pgqueue.tasks import scheduling
from tests import jobs
from tests.eventually import eventually
from tests.factories import (
    OVER,
    bury,
    claim,
    done,
    ended,
    exported,
    log_as_migrated,
    logged,
    make_due,
    one,
    past,
    run,
    schedule,
)

pytestmark = pytest.mark.django_db(transaction=True)

Connection = psycopg.Connection[Any]
HOUR = timedelta(hours=1)
SIZE = event_partitions.SIZE
NOTHING = {**dict.fromkeys(DID, 0), "is_busy": False}


@pytest.fixture
def connection(transactional_db: None) -> Iterator[Connection]:
    """A connection such as a worker's."""
    with closing(connect("default", name="test")) as connection:
        yield connection


def said(*arguments: str) -> str:
    """Return what the command says."""
    output = StringIO()
    call_command("pgqueue_maintain", *arguments, stdout=output)
    return output.getvalue()


def did(*arguments: str) -> dict[str, Any]:
    """Return what the command says that it did."""
    found: dict[str, Any] = json.loads(said("--format", "json", *arguments))
    return found


def test_every_duty_is_done_and_noted(connection: Connection, settings: Any) -> None:
    settings.PGQUEUE = {"RETENTION": {"succeeded": HOUR}, "DEAD_RETENTION": HOUR}
    make_due(connection, schedule(connection, 2))
    ended(connection, 3, ago=2 * HOUR)
    bury(connection, channel="mail")
    connection.execute(
        "UPDATE pgqueue_message SET claimed_at = created_at - interval '9 hours', "
        "errors = '[]' WHERE state = 'dead'"
    )

    found = did()

    assert set(found) == set(Duty.objects.values_list("name", flat=True))
    assert {"promote", "rescue", "expire", "lanes", "partitions", "purge", "forget"} <= set(found)
    assert found["promote"] == {"promoted": 2, "is_busy": False}
    assert found["purge"] == {"removed": 3, "discarded": 1, "stretches": 0, "is_busy": False}
    assert not Duty.objects.filter(ran_at=None).exists()
    assert History.objects.get().outcome == "discarded"


def test_all_of_it_is_done_that_is_left_to_do_now(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promote.promote, "__kwdefaults__", {"limit": 2})
    make_due(connection, schedule(connection, 7))

    assert did()["promote"]["promoted"] == 7


def test_schedules_are_done_those_of_code_and_those_of_operators(
    connection: Connection, settings: Any
) -> None:
    daily = {"task": "tests.jobs.add", "args": [1]}
    settings.PGQUEUE = {"SCHEDULES": {"of code": {**daily, "when": timedelta(days=1)}}}
    Schedule.objects.create(name="by hand", **daily, every=timedelta(days=1))
    did()
    Schedule.objects.update(next_at=datetime.now(UTC) - HOUR)

    found = did()["schedule"]

    assert (found["enqueued"], found["is_busy"]) == (2, False)
    done = Message.objects.order_by("metadata__schedule")
    assert [each.metadata["schedule"] for each in done] == ["by hand", "of code"]


def test_a_purge_goes_on_through_what_is_to_be_kept(
    connection: Connection, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PGQUEUE = {"RETENTION": {"succeeded": HOUR}}
    monkeypatch.setattr(retention, "REACH", 2)
    ended(connection, 7, ago=5 * HOUR)
    connection.execute("UPDATE pgqueue_history SET outcome = 'cancelled'")
    ended(connection, 3, ago=2 * HOUR)

    assert did()["purge"]["removed"] == 3


def test_log_lines_of_gone_messages_are_deleted_beyond_those_that_are_kept(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "STRETCH", 2)
    kept = [int(jobs.add.enqueue(1, 2).id) for _ in range(3)]
    gone = kept[-1] + 1
    connection.execute(
        "INSERT INTO pgqueue_run_log (message_id, attempt, lines) "
        "SELECT id, 1, '[]' FROM unnest(%s) id",
        [[*kept, gone]],
    )

    with patch("pgqueue.engine.run_logs.randrange", side_effect=[kept[0] - 1, kept[1]]):
        assert did()["forget"]["run_logs"] == 0
        assert did()["forget"]["run_logs"] == 1

    assert connection.execute("SELECT max(message_id) FROM pgqueue_run_log").fetchone() == (
        kept[-1],
    )


def test_is_said_in_words(connection: Connection) -> None:
    make_due(connection, schedule(connection, 2))

    lines = [line.split(None, 1) for line in said().splitlines()]

    assert ["promote", "2 promoted"] in lines
    assert ["expire", "nothing to do"] in lines


def test_what_a_worker_is_at_is_left_to_him(connection: Connection) -> None:
    did()

    with connection.transaction():
        connection.execute("SELECT FROM pgqueue_duty WHERE name = 'promote' FOR UPDATE")
        found = did()

    assert found["promote"]["is_busy"]
    assert not found["expire"]["is_busy"]


def test_one_that_fails_is_named_and_the_others_are_done(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> int:
        raise psycopg.errors.InsufficientPrivilege("this role may not")

    monkeypatch.setattr(expire, "expire", fail)
    make_due(connection, schedule(connection))
    output = StringIO()

    with pytest.raises(CommandError, match="Not done: expire"):
        call_command("pgqueue_maintain", "--format", "json", stdout=output)

    found = json.loads(output.getvalue())
    assert "this role may not" in found["expire"]["error"]
    assert found["promote"]["promoted"] == 1
    assert found["forget"]["is_busy"] is False


def test_two_at_once_do_each_thing_once(connection: Connection) -> None:
    make_due(connection, schedule(connection, 50))
    connection.execute("SELECT 1")

    with ThreadPoolExecutor() as threads:
        reports = [each.result() for each in [threads.submit(reported) for _ in range(4)]]

    assert sum(each["promote"] for each in reports) == 50
    assert Message.objects.filter(state=State.READY).count() == 50


def reported() -> dict[str, int]:
    """Return how much of each duty was done; none may fail."""
    reports = list(
        maintain.maintain(
            "default",
            all_duties(database="default", scheduling=scheduling, subscribing=subscribing),
        )
    )
    assert [each.error for each in reports if each.error] == []
    return {each.name: sum(each.did.values()) for each in reports}


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_another_database_may_be_named() -> None:
    did("--database", "second")

    assert Duty.objects.using("second").exists()
    assert not Duty.objects.exists()


def test_a_database_without_the_tables_is_an_error_that_says_what_to_do() -> None:
    options = connections["default"].settings_dict["OPTIONS"]

    with (
        patch.dict(options, options="-c search_path=nowhere"),
        pytest.raises(CommandError, match=r'"pgqueue_duty" does not exist: run manage.py migrate'),
    ):
        said()


@pytest.mark.parametrize(
    ("arguments", "error"), [(["--database", "nowhere"], "DATABASES has no 'nowhere'")]
)
def test_what_can_not_be_is_an_error(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error):
        said(*arguments)


class TestRescue:
    """No message is charged for an outage: whose lease is over has a lease of time to say so."""

    def test_is_not_waited_for_where_no_worker_is_silent(
        self, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {"LEASE": 3600}
        run(connection)

        assert did()["rescue"]["rescued"] == 0

    def test_takes_from_who_is_silent_for_another_lease(
        self, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {"LEASE": 0.3}
        run(connection, lease=OVER)

        assert did()["rescue"]["rescued"] == 1
        assert (Message.objects.get().state, Message.objects.get().lost) == (State.READY, 1)

    def test_charges_nothing_to_who_comes_back_after_an_outage(
        self, connection: Connection, settings: Any
    ) -> None:
        settings.PGQUEUE = {"LEASE": 3600}
        held = run(connection, 3, lease=OVER)

        with ThreadPoolExecutor() as threads:
            maintaining = threads.submit(reported)
            eventually(
                lambda: Duty.objects.filter(name="forget", ran_at__isnull=False).exists(),
                what="the other duties are not done",
            )
            lease.extend(connection, held, lease=HOUR)
            found = maintaining.result(20)

        assert found["rescue"] == 0
        assert Message.objects.filter(state=State.RUNNING, lost=0).count() == 3


def test_days_are_made_and_dropped(connection: Connection) -> None:
    (last,) = connection.execute(
        "SELECT max(inhrelid::regclass::text) FROM pg_inherits "
        "WHERE inhparent = 'pgqueue_history'::regclass"
    ).fetchone() or [""]
    connection.execute(f"DROP TABLE {last}")
    over, kept = [past(connection, ago) for ago in (32, 28)]
    try:
        found = did()
        left = [is_there(connection, over), is_there(connection, kept)]
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {over}; DROP TABLE IF EXISTS {kept}")
        partitions.ensure(connection)

    assert found["partitions"] == dict(NOTHING, made=1, dropped=1)
    assert left == [False, True]


def test_all_days_are_dropped_though_it_takes_minutes(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "monotonic", count(step=40.0).__next__)
    over = [past(connection, ago) for ago in (34, 33, 32)]
    try:
        found = did()
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {', '.join(over)}")

    assert found["partitions"] == dict(NOTHING, dropped=3)


@pytest.fixture
def _as_migrated(connection: Connection) -> Iterator[None]:
    yield
    log_as_migrated(connection)


@pytest.mark.usefixtures("_as_migrated")
def test_partitions_of_the_log_are_made_and_dropped(connection: Connection, settings: Any) -> None:
    settings.PGQUEUE = {"EVENT_RETENTION": 5 * HOUR, "EVENT_MAX_AGE": 9 * HOUR}
    for number, ago in enumerate((10, 8, 6, 4)):
        logged(connection, (number + 1) * SIZE - 1, ago=ago * HOUR)
    with connection.transaction():
        groups.make_group(connection, "slow", partitions=1, position=5)

    while_it_is_slow = did()["partitions"]
    groups.delete(connection, "slow")
    after_it = did()["partitions"]

    assert while_it_is_slow == dict(NOTHING, event_partitions_made=2, event_partitions_dropped=1)
    assert after_it == dict(NOTHING, event_partitions_dropped=2)
    assert is_there(connection, "pgqueue_event_3")


@pytest.mark.usefixtures("_as_migrated")
def test_a_partition_of_the_log_waits_for_exports_where_days_do(
    connection: Connection, settings: Any
) -> None:
    settings.PGQUEUE = {"EVENT_RETENTION": 5 * HOUR, "EXPORT_BEFORE_DROP": True}
    for number, ago in enumerate((10, 4)):
        logged(connection, (number + 1) * SIZE - 1, ago=ago * HOUR)

    before_any = did()["partitions"]
    exported(connection, Position(3, 4))
    connection.execute("UPDATE pgqueue_export SET event_position = %s", [SIZE - 1])
    after_it = did()["partitions"]

    assert before_any["event_partitions_dropped"] == 0
    assert after_it["event_partitions_dropped"] == 1


@pytest.mark.usefixtures("_as_migrated")
def test_a_partition_of_the_log_is_dropped_though_days_can_not_be(connection: Connection) -> None:
    old = past(connection, 32)
    logged(connection, SIZE - 1, ago=31 * 24 * HOUR)

    with closing(connect("default", name="test")) as other, other.transaction():
        other.execute("SELECT count(*) FROM pgqueue_history")
        with (
            patch.object(partitioning, "PATIENCE", "10ms"),
            pytest.raises(CommandError, match=r"Not done: partitions\."),
        ):
            did()
        left = [is_there(connection, old), is_there(connection, "pgqueue_event_0")]
    did()

    assert left == [True, False]
    assert not is_there(connection, old)


def test_days_are_left_to_who_is_dropping_some(connection: Connection) -> None:
    did()
    before = Duty.objects.get(name="partitions").ran_at

    connection.execute(partitioning.SQL["try_for_session"], {"table": partitions.TABLE})
    found = did()
    connection.execute(partitioning.SQL["leave"], {"table": partitions.TABLE})

    assert found["partitions"]["is_busy"]
    assert Duty.objects.get(name="partitions").ran_at == before


def is_there(connection: Connection, table: str) -> bool:
    return one(connection, "SELECT to_regclass(%s) IS NOT NULL", table) == (True,)


def test_whose_history_is_gone_says_so_when_asked(
    connection: Connection, settings: Any, admin_client: Client
) -> None:
    settings.PGQUEUE = {"RETENTION": HOUR}
    result = jobs.add.enqueue(2, 3)
    (held,) = claim(connection)
    settle.complete(connection, [done(held, "5")])
    result.refresh()
    connection.execute("UPDATE pgqueue_history SET finished_at = finished_at - interval '2 hours'")

    assert did()["purge"]["removed"] == 1

    for ask in (result.refresh, result.wait):
        with pytest.raises(TaskResultDoesNotExist):
            ask()
    assert result.return_value == 5
    for page in ("message", "history"):
        shown = admin_client.get(f"/admin/pgqueue/{page}/{result.id}/change/", follow=True)
        assert shown.status_code == 200
        assert "doesn’t exist" in shown.content.decode()
