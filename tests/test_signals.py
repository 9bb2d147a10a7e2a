"""The signals of the worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.dispatch import Signal

from pgqueue import signals
from pgqueue.engine.lease import Rescued
from pgqueue.models import History
from pgqueue.states import State
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.worker import Worker
from tests import jobs
from tests.hearing import heard


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("no")])
def test_an_error_of_a_receiver_is_logged_and_not_raised(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(**kwargs: object) -> None:
        raise error

    signal = Signal()
    signal.connect(receive)

    signals.send(signal, None)

    (record,) = caplog.records
    assert record.exc_info and record.exc_info[1] is error


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_raises_system_exit_does_not_end_the_worker() -> None:
    def leave(**kwargs: object) -> None:
        raise SystemExit(3)

    jobs.add.enqueue(1)
    several = (
        *(signals.worker_starting, signals.worker_started),
        *(signals.worker_stopping, signals.worker_stopped),
    )
    with (
        heard(signals.worker_stopping, "requests") as stopping,
        heard(signals.worker_stopped, "released") as stopped,
    ):
        for signal in several:
            signal.connect(leave)
        try:
            has_ended = Worker(
                WorkerConfig(database="default", threads=1, grace=timedelta(), drain=True)
            ).run()
        finally:
            for signal in several:
                signal.disconnect(leave)

    assert (has_ended, stopping, stopped, History.objects.count()) == (True, [0], [0], 1)


@pytest.mark.parametrize(("state", "level"), [("ready", "WARNING"), ("dead", "ERROR")])
def test_a_message_whose_workers_died_is_an_error_where_it_is_dead(
    state: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    rescued = Rescued(id=7, task="shop.tasks.pack", state=State(state))

    signals.send(signals.message_rescued, None, rescued=rescued)

    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == (
        level,
        f"shop.tasks.pack #7 lost its worker; now {state}",
    )
