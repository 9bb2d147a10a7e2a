"""What a person reads: durations in suitable units, periods in suitable buckets."""

from __future__ import annotations

import pytest

from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.summary import duration
from tests.spark.messages import BEGIN, at


@pytest.mark.parametrize(
    ("seconds", "width", "buckets"), [(0, 1, 1), (200, 1, 200), (201, 2, 101), (86_400, 600, 144)]
)
def test_a_period_has_some_buckets(seconds: float, width: int, buckets: int) -> None:
    period = Period(BEGIN, at(seconds))

    assert (period.width, period.buckets) == (width, buckets)
    assert len(period.starts) == buckets


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(float("nan"), "-"), (0.0123, "12.3 ms"), (59, "59 s"), (600, "10 min"), (7200, "2 h")],
)
def test_durations_have_the_unit_that_suits_them(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
