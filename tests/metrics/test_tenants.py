"""The figures by tenant, scraped from the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from pgqueue import publish, receive, send, subscribe, task
from pgqueue.conf import read
from pgqueue.database.connections import connect
from pgqueue.engine import live_counts
from pgqueue.metrics.fleet import Fleet
from pgqueue.models import Message
from pgqueue.states import State
from tests.factories import bury, enqueue, store

pytestmark = pytest.mark.django_db(transaction=True)

entered: list[str | None] = [None]


@contextmanager
def _enter(tenant: str) -> Iterator[None]:
    entered.append(tenant)
    try:
        yield
    finally:
        entered.pop()


functions = SimpleNamespace(current=lambda: entered[-1], enter=_enter)


@task(max_attempts=1)
def divide(by: int) -> None:
    1 / by


@subscribe("metered", name="metered by tenant")
@task
def take(event: Any) -> None: ...


@pytest.fixture
def connection(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture(autouse=True)
def tenancy(settings: Any) -> None:
    options = {"TENANT": f"{__name__}.functions", "TENANT_METRICS": 2}
    settings.PGQUEUE = {**settings.PGQUEUE, **options}


def scrape(connection: psycopg.Connection[Any]) -> dict[tuple[str, ...], float]:
    with connection.transaction():
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in Fleet(connection).collect()
            for sample in family.samples
            if sample.name.startswith("pgqueue_tenant_")
        }


def live(found: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    return {
        name[1:]: value
        for name, value in found.items()
        if name[0] == "pgqueue_tenant_messages" and value
    }


def ended(found: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    return {
        name[1:]: value
        for name, value in found.items()
        if name[0] == "pgqueue_tenant_runs_total" and value
    }


def test_live_messages_are_told_by_tenant_and_state(connection: psycopg.Connection[Any]) -> None:
    with _enter("north"):
        divide.enqueue_many([(1,)] * 3)
        divide.using(run_after=3600).enqueue(1)
    with _enter("south"):
        divide.enqueue(1)
    divide.enqueue(1)  # it has no tenant
    enqueue(connection, metadata='{"tenant": 7}')  # nor has this one
    bury(connection, channel="images", metadata='{"tenant": "south"}')

    found = scrape(connection)

    assert live(found) == {
        ("north", "ready"): 3,
        ("north", "scheduled"): 1,
        ("south", "ready"): 1,
        ("south", "dead"): 1,
    }
    assert found["pgqueue_tenant_messages", "south", "running"] == 0


def test_tenants_with_fewer_messages_are_summed_up(connection: psycopg.Connection[Any]) -> None:
    for number, name in enumerate(("a", "b", "c", "d"), start=1):
        enqueue(connection, number, metadata=f'{{"tenant": "{name}"}}')

    found = live(scrape(connection))

    assert found == {("d", "ready"): 4, ("c", "ready"): 3, ("(other)", "ready"): 3}


def test_a_few_messages_of_a_table_that_has_been_large_are_counted_exactly(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(connection, 2000)
    enqueue(connection, 3, metadata='{"tenant": "a"}')
    connection.execute("DELETE FROM pgqueue_message WHERE metadata = '{}'")
    monkeypatch.setattr(live_counts, "PAGES", 1)

    assert live(scrape(connection)) == {("a", "ready"): 3}


def test_a_large_table_is_read_in_part(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_counts, "BOUND", 100)
    # Earlier tests may have made the table large. A sample of a hundred pages would be too small.
    connection.execute("TRUNCATE pgqueue_message CASCADE")
    for name in ("a", "b"):
        enqueue(connection, 10_000, metadata=f'{{"tenant": "{name}"}}')
    monkeypatch.setattr(live_counts, "PAGES", 100)

    found = live(scrape(connection))

    assert found["a", "ready"] == pytest.approx(10_000, rel=0.5)
    assert found["b", "ready"] == pytest.approx(10_000, rel=0.5)


def test_runs_are_counted_by_tenant_and_outcome(connection: psycopg.Connection[Any]) -> None:
    with _enter("north"):
        divide.enqueue_many([(1,), (1,), (0,)])
    with _enter("south"):
        divide.using(atomic=True).enqueue(1)
        send("raw", 1)
    divide.enqueue(1)

    call_command("runworker", "--drain", verbosity=0)
    with receive("raw") as deliveries:
        for delivery in deliveries:
            delivery.complete()
    call_command("pgqueue_maintain", verbosity=0)

    assert ended(scrape(connection)) == {
        ("north", "succeeded"): 2,
        ("north", "dead"): 1,
        ("south", "succeeded"): 2,
    }


def test_runs_of_subscriptions_are_counted_for_the_tenant_of_the_publisher(
    connection: psycopg.Connection[Any],
) -> None:
    call_command("pgqueue_maintain", verbosity=0)
    with _enter("north"):
        publish("metered")
    call_command("pgqueue_maintain", verbosity=0)

    call_command("runworker", "--drain", verbosity=0)
    call_command("pgqueue_maintain", verbosity=0)

    assert ended(scrape(connection)) == {("north", "succeeded"): 1}


def test_runs_whose_tenant_has_no_name_are_counted_without_one(
    connection: psycopg.Connection[Any],
) -> None:
    store(
        connection,
        task=divide.name,
        payloads=['{"args": [1], "kwargs": {}}'],
        metadata='{"tenant": 7}',
        max_attempts=1,
    )

    call_command("runworker", "--drain", verbosity=0)
    call_command("pgqueue_maintain", verbosity=0)

    assert ended(scrape(connection)) == {}


@pytest.mark.parametrize(
    "unreadable", ["9" * 5000, "[" * 5000 + "]" * 5000], ids=["a number", "nested"]
)
def test_runs_whose_events_are_unreadable_are_counted_without_one(
    connection: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture, unreadable: str
) -> None:
    store(
        connection,
        task=divide.name,
        payloads=[f'{{"args": [{{"payload": {unreadable}}}], "kwargs": {{}}}}'],
        metadata='{"subscription": "metered"}',
        max_attempts=3,
    )

    call_command("runworker", "--drain", verbosity=0)
    call_command("pgqueue_maintain", verbosity=0)

    assert ended(scrape(connection)) == {}
    assert Message.objects.get().state == State.DEAD
    assert "settle fails" not in caplog.text
    assert "the lease was lost" not in caplog.text


@pytest.mark.parametrize("missing", ["TENANT", "TENANT_METRICS"])
def test_without_a_setting_there_are_no_series(
    connection: psycopg.Connection[Any], settings: Any, missing: str
) -> None:
    settings.PGQUEUE = {name: value for name, value in settings.PGQUEUE.items() if name != missing}
    divide.using(metadata={"tenant": "north"}).enqueue(1)
    divide.using(metadata={"tenant": "north"}, run_after=60).enqueue(1)

    call_command("runworker", "--drain", verbosity=0)
    call_command("pgqueue_maintain", verbosity=0)

    assert scrape(connection) == {}


@pytest.mark.parametrize("wrong", [-1, 501, True, "all", None])
def test_the_limit_is_a_number_up_to_500(wrong: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"TENANT_METRICS.* from 0 to 500"):
        read({"TENANT_METRICS": wrong})
