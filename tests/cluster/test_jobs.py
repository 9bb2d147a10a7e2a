"""A worker's job as its supervisor sees it, where Spark never begins it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from pgqueue import signals
from pgqueue.claiming.registration import WorkerIds
from pgqueue.worker.config import WorkerConfig
from tests import programs
from tests.eventually import eventually
from tests.hearing import heard

if not programs.have("pyspark"):
    pytest.skip("PySpark is missing", allow_module_level=True)

from pgqueue.cluster.host import WorkerOrder
from pgqueue.cluster.jobs import Job


class Waiting:
    """A session of Spark whose cluster has no room."""

    def __init__(self) -> None:
        self.cancelled = Event()
        self.tags: list[str] = []

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def range(self, end: int, numPartitions: int) -> Any:
        self.cancelled.wait(30)
        raise RuntimeError("cancelled")

    def interruptTag(self, tag: str) -> None:
        assert tag in self.tags
        self.cancelled.set()


@pytest.fixture
def spark() -> Iterator[Waiting]:
    spark = Waiting()
    yield spark
    spark.cancelled.set()


@pytest.fixture
def job(spark: Waiting) -> Iterator[Job]:
    ids = WorkerIds()
    order = WorkerOrder(
        config=WorkerConfig(database="default", threads=1, grace=timedelta()),
        driver=uuid4(),
        first=ids.first,
        settings=None,
        level=None,
    )
    job = Job(spark, order, "a job", ids, ask=lambda times: None)  # type: ignore[arg-type]
    eventually(lambda: spark.tags == ["a job"])
    yield job
    spark.cancelled.set()
    job.leave()


def test_a_job_that_has_not_begun_is_cancelled_and_nothing_was_cut_short(
    job: Job, spark: Waiting
) -> None:
    with heard(signals.job_failed, "job") as failed:
        job.give_up([WorkerIds().next()])
        job.announce()

    assert spark.cancelled.wait(10)
    assert job.status is not None
    assert job.has_stopped
    assert failed == []


def test_a_job_whose_worker_has_begun_is_left_alone(job: Job, spark: Waiting) -> None:
    job.give_up([job.ids.next()])

    assert job.status is None
    assert not spark.cancelled.is_set()


def test_a_job_that_is_killed_counts_as_dead_at_once(job: Job, spark: Waiting) -> None:
    with heard(signals.job_failed, "job") as failed:
        job.kill()
        job.announce()

    assert spark.cancelled.wait(10)
    assert (job.status, job.has_stopped, failed) == (-9, False, ["a job"])


def test_a_job_that_fails_says_why(job: Job, spark: Waiting) -> None:
    spark.cancelled.set()
    eventually(lambda: job.status is not None)

    with heard(signals.job_failed, "reason") as reasons:
        job.announce()

    assert (job.status, job.has_ended_well, reasons) == (1, False, ["cancelled"])
