"""Workers on a cluster, with executors in processes of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgqueue.models import History, Message, Worker
from pgqueue.states import Outcome, State
from tests import jobs
from tests.eventually import eventually
from tests.processes import ROOT, Process, starting

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
]

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CLUSTER = [
    *("--executor", "spark", "--master", "local-cluster[2,1,1024]", "--workers", "2"),
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.ui.enabled=false", "--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK}"),
    *("--conf", f"spark.executor.extraJavaOptions={QUICK}"),
    *("--conf", "spark.driver.host=127.0.0.1", "--threads", "2"),
]
STARTS_WITHIN = 120


def serving() -> list[Worker]:
    return [each for each in Worker.objects.all() if "driver" in each.info]


@contextmanager
def cluster(*arguments: str, workers: int = 2, **settings: object) -> Iterator[Process]:
    """A driver whose workers serve; it is gone at the end of the block."""
    with starting(*CLUSTER, *arguments, **settings) as process:
        eventually(
            lambda: len(serving()) == workers or process.popen.poll() is not None,
            within=STARTS_WITHIN,
            what="the workers serve",
        )
        assert process.popen.poll() is None, process.popen.communicate()[1]
        yield process


def test_workers_on_executors_drain_the_queue() -> None:
    jobs.add.enqueue_many([(each, 1) for each in range(200)])

    with starting(*CLUSTER, "--drain") as process:
        assert process.exit_status(within=STARTS_WITHIN) == 0, process.log

    assert History.objects.filter(outcome=Outcome.SUCCEEDED, attempt=1).count() == 200
    assert not Worker.objects.exists()


def test_a_driver_that_is_asked_to_stop_lets_what_runs_end_and_hands_back_the_rest() -> None:
    with cluster() as process:
        seen = serving()
        jobs.sleep.enqueue_many([(2.0, str(each)) for each in range(10)])
        eventually(lambda: Message.objects.filter(state=State.RUNNING).count() >= 4)
        process.signal(signal.SIGTERM)

        assert process.exit_status(within=30) == 0, process.log

    driver = seen[0].info["driver"]
    assert {each.info["driver"] for each in seen} == {driver}
    assert sorted(each.info["executor"] for each in seen) == ["0", "1"]
    assert 4 <= History.objects.filter(outcome=Outcome.SUCCEEDED, attempt=1).count() < 10
    left = list(Message.objects.values_list("state", "failures", "lost"))
    assert left == [(State.READY, 0, 0)] * (10 - History.objects.count())
    assert not Worker.objects.exists()
