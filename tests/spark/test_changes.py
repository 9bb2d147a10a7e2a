"""Changes of a task's duration, storms of retries, and a forecast: from small tables."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas
import pytest

from pgqueue.spark.pipeline.changes import changes, splits
from pgqueue.spark.pipeline.forecast import forecast
from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.pipeline.storms import storms
from tests.spark.messages import BEGIN, at

PERIOD = Period(BEGIN, at(100))


def noisy(*levels: tuple[int, float]) -> np.ndarray:
    chance = np.random.default_rng(1)
    return np.concatenate([level * chance.lognormal(0, 0.1, count) for count, level in levels])


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(60, 1.0)], []),
        ([(30, 1.0), (30, 1.2)], []),
        ([(30, 1.0), (30, 2.0)], [30]),
        ([(30, 2.0), (40, 1.0), (30, 2.0)], [30, 70]),
        ([(3, 1.0), (3, 9.0)], []),
    ],
    ids=["none", "too small", "slower", "and back", "too few"],
)
def test_a_change_is_found_where_it_is(
    levels: list[tuple[int, float]], expected: list[int]
) -> None:
    assert splits(noisy(*levels)) == pytest.approx(expected, abs=1)


def test_a_few_slow_runs_are_no_change() -> None:
    values = noisy((40, 1.0))
    values[20:23] = 50

    assert splits(values) == []


def test_a_change_tells_what_was_before_and_after() -> None:
    values = [1.0] * 20 + [3.0] * 20
    steady = pandas.DataFrame({"task": "b", "bucket": range(40), "messages": 9, "p50_s": 1.0})
    changed = pandas.DataFrame({"task": "a", "bucket": range(40), "messages": 2, "p50_s": values})

    points, durations = changes(pandas.concat([steady, changed]), PERIOD)

    assert points.values.tolist() == [["a", pandas.Timestamp(at(20)), 1, 3, 3, 40, 40]]
    assert set(durations["task"]) == {"a"}
    assert list(durations["p50_s"]) == values


def test_a_storm_is_where_a_task_is_retried_far_more_than_usual() -> None:
    counted = pandas.DataFrame(
        {
            "task": "a",
            "bucket": range(10),
            "attempts": [100] * 5 + [300, 400] + [100] * 3,
            "retries": [10] * 5 + [200, 300] + [10] * 3,
            "messages": 100,
        }
    )

    found = storms(counted, PERIOD)

    assert found.values.tolist() == [
        ["a", pandas.Timestamp(at(5)), pandas.Timestamp(at(7)), 700, 500, 2.5, 0.1]
    ]
    assert len(storms(counted.assign(retries=counted["retries"] // 50), PERIOD)) == 0
    assert len(storms(counted.head(0), PERIOD)) == 0


def backlog(days: int, *, growth: float = 0) -> pandas.DataFrame:
    """Return a backlog of 100 at noon and 0 at night, each half hour."""
    index = np.arange(days * 48)
    values = 50 - 50 * np.cos(index % 48 / 48 * 2 * np.pi) + growth * index
    begin = pandas.Timestamp(at(0)).normalize()
    return pandas.DataFrame({"at": begin + index * timedelta(minutes=30), "backlog": values})


def test_a_forecast_knows_the_time_of_day_and_the_trend() -> None:
    found = forecast(backlog(4, growth=1), 1800)

    ahead = found[found["kind"] == "forecast"]
    expected = backlog(5, growth=1)["backlog"].tail(48)
    assert len(ahead) == 48
    assert list(ahead["backlog"]) == pytest.approx(list(expected))
    assert (ahead["low"] <= ahead["backlog"]).all()
    assert (ahead["high"] >= ahead["backlog"]).all()
    assert found["at"].is_monotonic_increasing


def test_most_of_what_varies_is_within_the_band() -> None:
    table = backlog(6)
    table["backlog"] += np.random.default_rng(2).normal(0, 10, len(table))

    found = forecast(table, 1800)

    ahead = found[found["kind"] == "forecast"]
    assert 15 < (ahead["high"] - ahead["low"]).median() < 40
    assert (ahead["low"] >= 0).all()


@pytest.mark.parametrize(("days", "width"), [(2, 1800), (30, 86_400)])
def test_of_too_little_past_there_is_no_forecast(days: int, width: int) -> None:
    assert len(forecast(backlog(days), width)) == 0
