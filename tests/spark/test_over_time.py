"""What happened in each bucket of time, of a few messages that a person can count."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from pgqueue.spark.pipeline.attempts import attempts
from pgqueue.spark.pipeline.over_time import over_time, table
from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.pipeline.runs import LOST, waiting
from tests.spark.messages import BEGIN, at, error, live, message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PERIOD = Period(BEGIN, at(997))


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Any:
    """The rows of four buckets, of 5 seconds and the last one of 2."""
    ended = runs(
        spark,
        [
            message(1, 1, 2, id=1),
            message(3, 1, 8, id=2),
            message(-20, 5, 17, id=3),
            message(9, 3, 1, id=4, errors=[error(1, 7)], created_at=at(4), attempt=2),
            message(6, None, 2, id=5, outcome="expired"),
            message(14, 6, 2, id=6),
        ],
    )
    running = waiting(live(spark, [message(10, 6, id=7, state="running")]))
    assert PERIOD.width == 5
    found = over_time(attempts(ended.unionByName(running)), PERIOD, exact=True)
    return table(found, PERIOD).head(4)


def test_arrivals_and_ends_are_counted_where_they_were(found: Any) -> None:
    assert list(found["arrived"]) == [3, 1, 2, 0]
    assert list(found["ended"]) == [2, 1, 2, 0]
    assert list(found["failed_attempts"]) == [0, 1, 0, 0]


def test_the_backlog_is_what_was_due_and_had_not_begun(found: Any) -> None:
    assert list(found["backlog"]) == [1, 1, 2, 1]


def test_what_ran_is_the_mean_of_a_bucket(found: Any) -> None:
    # 1: 2 s, 2: 1 s, 3: 2 s; then 2 whole and an estimated second of 4; then 2, 4 and so on.
    assert list(found["running"]) == pytest.approx([5 / 5, 6 / 5, 3 / 5, 4 / 5])


def test_waits_are_of_what_began_there(found: Any) -> None:
    assert list(found["wait_p50_s"].fillna(-1)) == [1, -1, 3, 6]


def test_a_message_that_ended_before_it_was_due_never_waited(spark: SparkSession) -> None:
    cancelled = message(30, None, outcome="cancelled", ended_at=at(6), created_at=at(1))
    ended = runs(spark, [cancelled, message(0, 20, 2, id=2)])

    found = table(over_time(attempts(ended), PERIOD, exact=True), PERIOD).head(8)

    assert list(found["arrived"]) == [1, 1, 0, 0, 0, 0, 0, 0]
    assert list(found["ended"]) == [0, 1, 0, 0, 1, 0, 0, 0]
    assert list(found["backlog"]) == [1, 1, 1, 1, 0, 0, 0, 0]


def test_times_long_after_the_period_are_left_out(spark: SparkSession) -> None:
    never = datetime(9999, 12, 1, tzinfo=UTC)
    waits = waiting(live(spark, [message(0, None, run_at=never, id=2, state="ready")]))

    found = table(over_time(attempts(waits), PERIOD, exact=True), PERIOD)

    assert found[["arrived", "ended", "backlog"]].sum().tolist() == [0, 0, 0]


def test_a_message_that_waits_for_its_retry_has_failed_attempts(spark: SparkSession) -> None:
    retried = {"errors": [error(1, 7)], "created_at": at(1), "worker_id": None, "attempt": 1}
    rows = [
        message(12, -8, id=1, state="ready", **retried),
        message(5000, -4996, id=2, state="scheduled", **retried),
        message(5000, None, id=3, state="scheduled"),
    ]
    cancelled = runs(spark, [message(12, -8, 8, id=4, outcome="cancelled", **retried)])

    every = attempts(waiting(live(spark, rows)).unionByName(cancelled))
    found = table(over_time(every, PERIOD, exact=True), PERIOD).head(4)

    assert list(found["arrived"]) == [3, 0, 0, 0]
    assert list(found["failed_attempts"]) == [0, 3, 0, 0]
    assert list(found["backlog"]) == [3, 0, 1, 1]


def test_a_message_that_lost_its_worker_waits_from_the_loss(spark: SparkSession) -> None:
    lost = [error(1, 7, **{"class": LOST})]
    row = message(0, 1, errors=lost, failures=0, lost=1, worker_id=None, state="ready")

    [found] = waiting(live(spark, [row])).select(F.unix_timestamp("due_at")).collect()

    assert found[0] == at(7).timestamp()
