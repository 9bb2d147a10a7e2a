"""Metrics by OpenTelemetry's SDK: what this process does, and gauges of the whole queue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import call_command

from pgqueue import publish, send, telemetry
from pgqueue.metrics.fleet import Fleet
from pgqueue.telemetry import gauges
from tests.factories import bury, enqueue
from tests.telemetry import jobs
from tests.telemetry.reading import Metrics

pytestmark = pytest.mark.django_db(transaction=True)

Connection = psycopg.Connection[Any]

SENT = "messaging.client.sent.messages"
CONSUMED = "messaging.client.consumed.messages"
DURATION = "messaging.process.duration"
DESTINATION = "messaging.destination.name"
TASK = "messaging.pgqueue.task"
OUTCOME = "messaging.pgqueue.outcome"


def drain(*options: str) -> None:
    call_command("runworker", "--drain", *options, verbosity=0)


class TestWhatIsSent:
    def test_is_counted_by_channel_and_task(self, measured: Metrics) -> None:
        jobs.tell.enqueue()
        jobs.tell.enqueue_many([()] * 3)
        send("letters", 1)
        publish("parcel.packed")

        assert measured.values(SENT, DESTINATION, TASK) == {
            ("mail", jobs.tell.name): 4,
            ("letters", None): 1,
            (None, None): 1,  # topics may have ids in them
        }

    def test_that_was_there_before_is_not_counted(self, measured: Metrics) -> None:
        for _ in range(3):
            jobs.tell.using(dedupe_key="once").enqueue()

        assert measured.values(SENT, DESTINATION) == {("mail",): 1}

    def test_and_could_not_be_stored_is_counted_with_the_error(self, measured: Metrics) -> None:
        with pytest.raises(TypeError):
            jobs.tell.enqueue("too much")  # type: ignore[call-arg]

        assert measured.values(SENT, "error.type") == {("pgqueue.exceptions.InvalidArguments",): 1}


class TestARun:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_is_counted_by_how_it_ended(self, measured: Metrics, atomic: bool) -> None:
        jobs.tell.using(atomic=atomic).enqueue()
        jobs.succeed_at_last.using(atomic=atomic, max_attempts=2).enqueue()
        for how in ("defer", "discard", "cancel"):
            jobs.end_as.using(atomic=atomic).enqueue(how)

        drain()

        assert measured.values(CONSUMED, TASK, OUTCOME, "error.type") == {
            (jobs.tell.name, "succeeded", None): 1,
            (jobs.succeed_at_last.name, "failed", "ValueError"): 1,
            (jobs.succeed_at_last.name, "dead", "ValueError"): 1,
            (jobs.end_as.name, "deferred", None): 1,
            (jobs.end_as.name, "succeeded", None): 1,
            (jobs.end_as.name, "discarded", None): 1,
            (jobs.end_as.name, "cancelled", None): 1,
        }

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_is_measured(self, measured: Metrics, options: list[str]) -> None:
        jobs.tell_async.enqueue_many([()] * 3)

        drain(*options)

        [point] = measured.points(DURATION)
        assert dict(point.attributes) == {
            "messaging.system": "pgqueue",
            "messaging.operation.name": "process",
            DESTINATION: "mail",
            TASK: jobs.tell_async.name,
        }
        assert (point.count, point.sum > 0) == (3, True)
        assert point.explicit_bounds[0] == 0.005
        assert measured.values(CONSUMED, OUTCOME) == {("succeeded",): 3}


class TestGauges:
    @pytest.fixture(autouse=True)
    def _observed(self, providers: dict[str, Any]) -> Iterator[None]:
        telemetry.observe_queue(meter_provider=providers["meter_provider"])
        yield
        telemetry.uninstrument()

    def test_are_all_those_of_the_figures_for_prometheus(self, connection: Connection) -> None:
        families = [each for each in Fleet(connection).collect() if each.type == "gauge"]

        assert {f"pgqueue_{name}" for name in gauges.UNITS} == {each.name for each in families}

    def test_tell_tenants(self, measured: Metrics, connection: Connection, settings: Any) -> None:
        options = {"TENANT": "tests.tasks.test_tenants.functions", "TENANT_METRICS": 9}
        settings.PGQUEUE = {**settings.PGQUEUE, **options}
        enqueue(connection, 3, metadata='{"tenant": "north"}')
        connection.execute(
            "INSERT INTO pgqueue_tenant_total VALUES ('north', now(), 5, 0, 0, 0, 0, 0)"
        )

        live = measured.values("pgqueue.tenant_messages", "tenant", "state")
        ended = measured.values("pgqueue.tenant_runs", "tenant", "outcome")

        assert live["north", "ready"] == 3
        assert ended["north", "succeeded"] == 5

    def test_tell_depth_and_age(self, measured: Metrics, connection: Connection) -> None:
        enqueue(connection, 3, channel="mail")
        bury(connection, 2, channel="images")

        depth = measured.values("pgqueue.messages", "channel", "state")
        age = measured.values("pgqueue.oldest_ready_age", "channel")

        assert (depth["mail", "ready"], depth["images", "dead"]) == (3, 2)
        assert age["mail",] > age["images",] == 0

    def test_are_read_together_once_for_each_collection(
        self, measured: Metrics, connection: Connection
    ) -> None:
        with patch.object(gauges, "_read", wraps=gauges._read) as read:
            measured.points("pgqueue.messages")

        assert read.call_count == 1

    def test_without_a_database_tell_nothing_and_say_so(
        self, measured: Metrics, caplog: pytest.LogCaptureFixture
    ) -> None:
        with patch.object(gauges, "connect", side_effect=psycopg.OperationalError("it is away")):
            found = measured.points("pgqueue.messages")

        assert found == []
        assert caplog.text.count("it is away") == 1

    def test_need_what_the_figures_are_made_with(self) -> None:
        telemetry.uninstrument()

        with (
            patch.dict(sys.modules, {"prometheus_client": None}),
            pytest.raises(ImportError, match=r"pgqueue\[opentelemetry,prometheus\]"),
        ):
            telemetry.observe_queue()

    def test_tell_nothing_any_more_when_that_is_undone(self, measured: Metrics) -> None:
        telemetry.uninstrument()

        assert measured.points("pgqueue.scrape_failed") == []
