"""Workers on a cluster, with executors in processes of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgqueue.models import History, Message, Worker
from pgqueue.states import Outcome, State
from tests import jobs
from tests.chaos.harness.migrated import migrated
from tests.chaos.harness.processes import Process as OnStage
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually
from tests.processes import ROOT, Process, starting
from tests.system import children, is_alive

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

CLUSTER = [
    *("--executor", "spark", "--master", "local-cluster[2,1,1024]", "--workers", "2"),
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.ui.enabled=false", "--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
    *("--conf", "spark.driver.host=127.0.0.1", "--threads", "2"),
]
STARTS_WITHIN = 240


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


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_workers_on_executors_drain_the_queue() -> None:
    jobs.add.enqueue_many([(each, 1) for each in range(200)])

    with starting(*CLUSTER, "--drain") as process:
        assert process.exit_status(within=STARTS_WITHIN) == 0, process.log

    assert History.objects.filter(outcome=Outcome.SUCCEEDED, attempt=1).count() == 200
    assert not Worker.objects.exists()


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
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


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_workers_come_and_go_with_the_work_there_is() -> None:
    with starting(*CLUSTER, "--max-idle", "2") as process:
        eventually(lambda: Worker.objects.count() == 1, within=STARTS_WITHIN, what="it drives")
        jobs.add.using(run_after=1).enqueue(1, 1)

        eventually(lambda: History.objects.count() == 1, within=STARTS_WITHIN)
        most = len(serving())
        eventually(lambda: not serving(), within=30, what="the worker ends")
        jobs.sleep.enqueue_many([(60.0,)] * 2)
        eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 2, within=60)
        process.signal(signal.SIGTERM)
        eventually(lambda: Worker.objects.filter(info__stop=1).exists(), what="it passes that on")
        process.signal(signal.SIGTERM)

        assert process.exit_status(within=15) == 0, process.log

    assert most == 1
    assert [(each.state, each.lost) for each in Message.objects.all()] == [(State.READY, 0)] * 2


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_a_driver_whose_workers_wait_for_executors_stops_at_once() -> None:
    with starting(*CLUSTER, "--conf", "spark.cores.max=1") as process:
        eventually(lambda: len(serving()) == 1, within=STARTS_WITHIN, what="one serves")
        process.signal(signal.SIGTERM)

        assert process.exit_status(within=15) == 0, process.log
    assert not Worker.objects.exists()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A scenario on a server of its own, with the ledger of the chaos tests."""
    with migrated("cluster") as server:
        server.start()
        stage = Stage(server, tmp_path, "cluster")
        try:
            yield stage
        finally:
            stage.close()
            stage.show_logs()


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [each for child in below for each in descendants(child)]


def executors(driver: OnStage) -> list[int]:
    """The executors' JVMs."""
    return [
        pid
        for pid in descendants(driver.pid)
        if b"--executor-id" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]


def workers_of(stage: Stage, driver: OnStage) -> int:
    query = (
        "SELECT count(*) FROM pgqueue_worker w JOIN pgqueue_worker d "
        "ON w.info ->> 'driver' = d.id::text "
        "WHERE d.pid = %s AND w.last_seen > now() - interval '5 s'"
    )
    row = stage.ask(query, driver.pid)
    return row[0] if row else 0


def drive(stage: Stage) -> OnStage:
    """Start a driver; return when its workers serve."""
    return stage.worker(
        *CLUSTER, serves=lambda driver: workers_of(stage, driver) == 2, within=STARTS_WITHIN
    )


@pytest.mark.nightly
def test_an_executor_or_a_driver_that_is_killed_loses_nothing(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=20)
    driver = drive(stage)

    stage.settles(20)
    with stage.fault():
        os.kill(executors(driver)[0], signal.SIGKILL)
    eventually(lambda: "what it held is taken from it" in driver.log, within=30)
    eventually(lambda: workers_of(stage, driver) == 2, within=STARTS_WITHIN, what="it is replaced")

    stage.settles(20)
    below = descendants(driver.pid)
    stage.kill(driver)
    eventually(lambda: not any(map(is_alive, below)), within=30, what="its executors are gone")
    with stage.fault():
        successor = drive(stage)

    stage.settles(20)
    successor.signal(signal.SIGTERM)
    assert successor.exit_status() == 0, successor.log
    stage.expect_dead(successor)

    stage.worker()
    stage.end()
