"""What is derived of a message from its row in history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqueue.spark.pipeline.attempts import attempts
from tests.spark.messages import Row, at, error, message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST = "pgqueue.exceptions.LeaseLost"
TRACEBACK = """Traceback (most recent call last):
  File "/app/shop/tasks.py", line 12, in charge
    pay(order)
  File "/app/shop/pay.py", line 7, in pay
    requests.post(url)
  File "/venv/lib/python3.11/site-packages/requests/api.py", line 115, in post
    raise ConnectionError
requests.ConnectionError: no answer
"""


@pytest.fixture(scope="module")
def derived(spark: SparkSession) -> dict[int, Any]:
    """Runs by their ids: one job for all."""
    retried = [error(1, 5, traceback=TRACEBACK, message="Order 17 of 'bob' can't\nbe paid")]
    rows: list[Row] = [
        message(0, 1, 2, id=1),
        message(-60, 61, 2, id=2, created_at=at(-60), run_at=at(0)),
        message(0, 1, 2, id=3, created_at=at(0), run_at=at(-60)),
        message(10, 1, 2, id=4, errors=retried, created_at=at(0)),
        message(0, 1, 2, id=5, errors=[error(1, 3)], outcome="dead"),
        message(0, 1, 40, id=6, errors=[error(1, 41, **{"class": LOST})], outcome="dead", lost=1),
        message(0, None, 9, id=7, outcome="expired"),
        # The first lost lease leaves run_at as it was.
        message(
            0, 21, 2, id=8, errors=[error(1, 20, **{"class": LOST})], failures=0, lost=1, attempt=2
        ),
        # Cancelled while it waited for its second attempt: only the first one has a start.
        message(10, -9, 12, id=9, outcome="cancelled", errors=[error(1, 2)], worker_id=None),
        # A dead letter that was discarded an hour later.
        message(0, 1, 3600, id=10, outcome="discarded", errors=[error(1, 3)], worker_id=None),
    ]
    return {row.id: row for row in runs(spark, rows).collect()}


def times(row: Any) -> tuple[float | None, float | None, float | None]:
    return row.wait_s, row.run_s, row.total_s


def test_a_message_waits_from_when_it_is_due(derived: dict[int, Any]) -> None:
    assert times(derived[1]) == (1, 2, 3)


def test_a_delayed_message_waits_from_the_end_of_the_delay(derived: dict[int, Any]) -> None:
    assert times(derived[2]) == (1, 2, 3)


def test_a_message_due_in_the_past_waits_from_its_creation(derived: dict[int, Any]) -> None:
    assert times(derived[3]) == (1, 2, 3)


def test_a_retry_waits_from_when_the_retry_is_due_and_the_total_is_from_the_beginning(
    derived: dict[int, Any],
) -> None:
    assert times(derived[4]) == (1, 2, 13)
    assert derived[4].is_retried


def test_a_message_that_died_at_once_was_not_retried(derived: dict[int, Any]) -> None:
    assert times(derived[5]) == (1, 2, 3)
    assert not derived[5].is_retried


def test_what_lost_its_lease_has_no_known_run(derived: dict[int, Any]) -> None:
    assert times(derived[6]) == (None, None, 41)


def test_what_never_ran_has_no_times(derived: dict[int, Any]) -> None:
    assert times(derived[7]) == (None, None, None)


def test_after_a_loss_it_waits_from_the_loss(derived: dict[int, Any]) -> None:
    assert times(derived[8]) == (1, 2, 23)
    assert derived[8].is_retried


@pytest.mark.parametrize("pk", [9, 10])
def test_what_did_not_end_by_a_run_has_no_run(derived: dict[int, Any], pk: int) -> None:
    assert times(derived[pk]) == (None, None, None)


def test_an_error_has_the_users_own_place_and_a_pattern(derived: dict[int, Any]) -> None:
    [found] = derived[4].errors

    assert found.place == "/app/shop/pay.py:7 in pay"
    assert found.pattern == "Order # of … can't"
    assert found.error_class == "shop.Oops"


def test_earlier_attempts_are_taken_to_have_run_as_long_as_the_last(spark: SparkSession) -> None:
    failed = [error(1, 5), error(2, 10)]
    row = message(20, 1, 2, created_at=at(0), errors=failed, attempt=3)

    found = attempts(runs(spark, [row])).orderBy("ended_at").collect()

    assert [
        tuple((time - at(0).replace(tzinfo=None)).total_seconds() for time in each[5:8])
        for each in found
    ] == [(0, 3, 5), (7, 8, 10), (20, 21, 23)]
    assert [each.is_failed for each in found] == [True, True, False]
