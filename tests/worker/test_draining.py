"""`runworker --drain` leaves nothing that only another worker would note."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import call_command

from pgqueue import Channel, flow
from pgqueue.database.connections import Session, connect
from pgqueue.engine import culprits
from pgqueue.models import Flow, History, Message
from pgqueue.states import State
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.drain import Drain
from tests import jobs
from tests.factories import refusing
from tests.flow_jobs import number, total
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)


def test_flows_that_have_ended_are_noted_as_such() -> None:
    # Its duty was done just now, so that it is not due again for seconds.
    call_command("runworker", "--drain", verbosity=0)
    with flow("nightly") as nightly:
        parts = [nightly.enqueue(number, value) for value in range(3)]
        nightly.enqueue(total, parts)

    call_command("runworker", "--drain", verbosity=0)

    assert not Message.objects.exists()
    assert Flow.objects.get().ended_at is not None


@contextmanager
def refused(table: str, condition: str) -> Iterator[None]:
    with closing(connect("default", name="test")) as own, refusing(own, table, condition, "UPDATE"):
        yield


class TestARowThatCantBeClaimed:
    @pytest.fixture(autouse=True)
    def _forget(self, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        caplog.set_level(logging.ERROR, logger="pgqueue")
        yield
        culprits.forget_all()

    def drain(self) -> None:
        with pytest.raises(SystemExit) as ended:
            call_command("runworker", "--drain", "--threads", "1", verbosity=0)
        assert ended.value.code == 1

    @pytest.mark.parametrize(
        "options",
        [{}, {"key": "a"}, {"key": "a", "ordered": True}],
        ids=["free", "governed", "ordered"],
    )
    def test_is_not_waited_for_but_named(
        self, caplog: pytest.LogCaptureFixture, options: dict[str, object]
    ) -> None:
        Channel("limited").policy(each_key=True, max_running=2)
        channel = "limited" if options else "default"
        task = jobs.add.using(channel=channel, **options)  # type: ignore[arg-type]
        bad = task.enqueue(1)
        others = [task.using(key=key).enqueue(2) for key in ("b", "c")]

        with refused("pgqueue_message", f"OLD.id = {bad.id}"):
            self.drain()

        assert Message.objects.get().state == State.READY
        assert {each.pk for each in History.objects.all()} == {int(each.id) for each in others}
        told = [each.message for each in caplog.records if "is drained" in each.message]
        assert told == [
            f"The queue is drained except rows that make statements fail: pgqueue_message {bad.id}"
        ]

    def test_is_not_waited_for_nor_is_what_is_ordered_behind_it(self) -> None:
        bad, behind = (jobs.add.using(key="a", ordered=True).enqueue(1) for _ in range(2))
        other = jobs.add.using(key="b", ordered=True).enqueue(1)

        with refused("pgqueue_message", f"OLD.id = {bad.id}"):
            self.drain()

        assert {each.pk for each in Message.objects.all()} == {int(bad.id), int(behind.id)}
        assert History.objects.get().pk == int(other.id)

    def test_is_named_once(self, caplog: pytest.LogCaptureFixture) -> None:
        bad = jobs.add.enqueue(1)
        ends = []
        drain = Drain(
            Session("default", name="test"),
            WorkerConfig(database="default", threads=1, grace=timedelta(), drain=True),
            Mock(end_drained=lambda: ends.append(1)),
            None,
        )
        with closing(connect("default", name="test")) as own:
            error = psycopg.errors.RaiseException("refused")
            culprits.leave_out(own, "claim", "pgqueue_message", int(bad.id), error=error)

        for _ in range(2):
            drain.tick()
        drain.finish()

        assert len(ends) == 2
        assert caplog.text.count("The queue is drained") == 1

    def test_may_be_a_lane(self, caplog: pytest.LogCaptureFixture) -> None:
        for key in "ab":
            jobs.add.using(key=key, ordered=True).enqueue(1)

        with refused("pgqueue_lane", "OLD.key = 'a'"):
            self.drain()

        assert Message.objects.get().key == "a"
        assert "statements fail: pgqueue_lane 'default', 'a'" in caplog.text

    def test_may_be_a_gate(self, caplog: pytest.LogCaptureFixture) -> None:
        Channel("limited").policy(rate=1000, burst=1000)
        jobs.add.using(channel="limited").enqueue(1)
        jobs.add.enqueue(1)

        with refused("pgqueue_gate", "true"):
            self.drain()

        assert Message.objects.get().channel == "limited"
        assert "statements fail: pgqueue_gate 'limited'" in caplog.text

    def test_may_wait_for_a_retry_that_never_becomes_due(self) -> None:
        bad = jobs.fail_twice.using(backoff=[timedelta(seconds=0.3)]).enqueue()

        with refused("pgqueue_message", f"OLD.id = {bad.id} AND OLD.state = 'scheduled'"):
            self.drain()

        assert Message.objects.get().state == State.SCHEDULED

    def test_makes_no_difference_once_it_is_gone(self, caplog: pytest.LogCaptureFixture) -> None:
        bad = jobs.add.enqueue(1)
        with refused("pgqueue_message", f"OLD.id = {bad.id}"):
            self.drain()
        Message.objects.all().delete()
        jobs.add.enqueue(2)

        call_command("runworker", "--drain", "--threads", "1", verbosity=0)

        assert not Message.objects.exists()

    @pytest.mark.slow
    def test_ends_all_processes_with_the_same_status(self) -> None:
        bad = jobs.add.enqueue(1)
        others = [jobs.add.enqueue(2) for _ in range(3)]

        with (
            refused("pgqueue_message", f"OLD.id = {bad.id}"),
            worker("--drain", "--processes", "2", "--threads", "1") as process,
        ):
            status = process.exit_status()

        assert status == 1
        assert {each.pk for each in History.objects.all()} == {int(each.id) for each in others}
        assert f"statements fail: pgqueue_message {bad.id}" in process.log
