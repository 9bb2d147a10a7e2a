"""Numbers, durations, shares, times and axes as people expect them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest

from pgqueue.spark.page import axes, plots, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.rows import plain
from pgqueue.spark.page.timeline import merged

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def spaced(text: str) -> str:
    """Return a text with usual spaces and signs."""
    return text.translate({0x202F: " ", 0x2013: "missing", 0x2212: "-", 0xD7: "x"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "missing"), (0, "0"), (7, "7"), (0.25, "0.25"), (0.0004, "0.0004"), (999, "999")],
        *[(1000, "1 k"), (12_345, "12.3 k"), (999_960, "1 M"), (1.5e9, "1.5 G"), (-1200, "-1.2 k")],
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert spaced(units.number(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "missing"), (0.0, "0 ms"), (0.0000421, "42.1 µs"), (0.0123, "12.3 ms")],
        *[(0.9999, "1 s"), (1.43, "1.43 s"), (60.0, "1 min"), (90.0, "90 s"), (150.0, "2.5 min")],
        *[(3600.0, "1 h"), (9000.0, "2.5 h"), (86_400.0, "1 d"), (2e8, "2.31 k d")],
    ],
)
def test_durations_have_the_unit_that_fits(value: float | None, text: str) -> None:
    assert spaced(units.seconds(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "missing"), (0, "0 %"), (1, "100 %"), (0.992, "99.2 %"), (0.99996, "99.996 %")],
        *[(0.999999, "> 99.999 %"), (0.0004, "0.04 %"), (0.000001, "< 0.001 %")],
        *[(-1.22, "-122 %"), (25.0, "2.5 k %")],
    ],
)
def test_only_a_whole_is_a_hundred_percent(value: float | None, text: str) -> None:
    assert spaced(units.share(value)) == text


def test_times_are_in_utc() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-13)))

    assert spaced(units.when(elsewhere)) == "24 Nov 12:00"
    assert spaced(units.weekday(elsewhere)) == "Tue 24 Nov"


@pytest.mark.parametrize("highest", [0.0, 0.003, 1, 7, 99, 101, 5e9])
def test_an_axis_from_zero_contains_its_values_and_has_few_round_ticks(highest: float) -> None:
    axis = axes.from_zero([0, highest, None])

    assert axis.low == 0
    assert axis.high >= highest
    assert len(axis.ticks) <= 6
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize("values", [[], [0.0], [0.05], [1e-7, 1e7], [0.01, 0.02], [1.0, 1.0]])
def test_an_axis_of_durations_contains_its_values(values: list[float]) -> None:
    axis = axes.of_durations([*values, None])

    assert axis.low < axis.high
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert axis.high >= max(values, default=0)
    assert 2 <= len(axis.ticks) <= 7


@pytest.mark.parametrize("seconds", [0, 30, 500, 3_600, 86_400, 7 * 86_400, 400 * 86_400, 9e9])
def test_an_axis_of_time_has_few_ticks(seconds: float) -> None:
    axis = axes.of_time(NOON, NOON + timedelta(seconds=seconds / 10))

    assert len(axis.ticks) <= 9
    assert all(0 <= tick.at <= 1 for tick in axis.ticks)


def test_a_minute_has_ticks_of_seconds() -> None:
    axis = axes.of_time(NOON, NOON + timedelta(minutes=1))

    assert [tick.label for tick in axis.ticks][:3] == ["12:00", "12:00:10", "12:00:20"]


def test_days_are_named_where_there_is_little_room() -> None:
    axis = axes.of_time(NOON - timedelta(hours=2), NOON + timedelta(days=2))

    shown = [spaced(tick.label) for tick in axis.ticks if not tick.is_second]

    assert shown == ["25 Nov", "26 Nov"]


def test_a_missing_value_is_a_gap_in_a_line() -> None:
    unit = Axis(0, 1)
    found: list[plots.Point | None] = [(0.0, 0.0), (1.0, 1.0), None, (3.0, 3.0)]

    assert plots.line(found) == "M0 0L1 1 M3 3h0"
    assert plots.box(unit.place(-1), 0, unit.place(2), 1) == "M0 0h1000v1000h-1000Z"


def test_neighbouring_intervals_become_one_point_that_keeps_the_peak() -> None:
    rows = [
        {"at": NOON + timedelta(minutes=each), "arrived": each, "backlog": each}
        | {"wait_p99_s": None, "task": "a"}
        for each in range(4)
    ]

    same = {"wait_p99_s": None, "task": "a"}
    assert merged(rows, 4) == rows
    assert merged(rows, 2) == [
        {"at": NOON, "arrived": 0.5, "backlog": 1} | same,
        {"at": NOON + timedelta(minutes=2), "arrived": 2.5, "backlog": 3} | same,
    ]


def test_values_of_pandas_become_those_of_python() -> None:
    series = pd.Series([1, 2])

    assert [plain(each) for each in (pd.NaT, pd.NA, float("nan"), float("inf"))] == [None] * 4
    assert type(plain(series.iloc[0])) is int
    assert plain(pd.Timestamp("2026-11-24T12:00")) == NOON
    assert plain({"error": float("nan")}) == {"error": None}
    assert plain("a\x00b\n") == "a\N{REPLACEMENT CHARACTER}b\n"
