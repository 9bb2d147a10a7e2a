"""How many slots there were is told right, of histories whose workers are known exactly.

Where the simulation is right, its waits with these slots are those that were measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

from pgqueue.spark.pipeline.fleet import added, top
from pgqueue.spark.pipeline.simulation import simulate, work_of
from tests.spark.fleet import Worker, forever, history, killed_in_turn

pytestmark = pytest.mark.slow

TWO = [forever(16), forever(16)]
COUNT = 12_000
Made = Callable[[], pandas.DataFrame]


def busy(workers: list[Worker], *, mean: float = 0.1, over: float = 30, **given: Any) -> Made:
    """Make more messages than workers run meanwhile."""

    def make() -> pandas.DataFrame:
        chance = np.random.default_rng(3)
        due = np.sort(chance.uniform(0, over, COUNT))
        return history(workers, due.tolist(), chance.exponential(mean, COUNT).tolist(), **given)

    return make


def rushes() -> pandas.DataFrame:
    """Make three rushes, with nothing to do between them."""
    chance = np.random.default_rng(3)
    due = np.concatenate(
        [chance.uniform(60 * each, 60 * each + 6, COUNT // 3) for each in range(3)]
    )
    return history(TWO, np.sort(due).tolist(), chance.exponential(0.1, COUNT).tolist())


def beside_long_runs() -> pandas.DataFrame:
    """Make short messages that run beside long ones."""
    chance = np.random.default_rng(3)
    due = [0.0] * 24 + np.sort(chance.uniform(0, 20, COUNT)).tolist()
    service = [60.0] * 24 + chance.exponential(0.02, COUNT).tolist()
    return history(TWO, due, service, batch=200, jitter=0.01)


def within(frame: pandas.DataFrame, since: float, until: float) -> pandas.DataFrame:
    """Return of a history what `arrivals` selects of a window."""
    frame = frame.copy()
    start, end = int(since * 1e6), int(until * 1e6)
    frame["is_before"], frame["is_after"] = frame["due"] < start, frame["due"] >= end
    last = frame[~frame["is_before"] & ~frame["is_after"]]["began"].max()
    frame = frame[(frame["ended"] > start) & (~frame["is_after"] | (frame["began"] < last))]
    return frame.assign(is_running=frame["began"] < start, began=frame["began"].clip(lower=start))


CASES: dict[str, tuple[int, Made]] = {
    "one worker": (32, busy([forever(32)])),
    "two workers": (32, busy(TWO)),
    "a rest after each run": (32, busy(TWO, gap=0.005)),
    "times that are not exact": (32, busy(TWO, batch=200, jitter=0.02)),
    "short runs": (32, busy(TWO, mean=0.004, over=1.2, batch=500, jitter=0.01)),
    "beside long runs": (32, beside_long_runs),
    "idle between rushes": (32, rushes),
    "killed": (32, busy(killed_in_turn(16, seconds=60, every=7, starts=0.7))),
    "killed with what they had claimed": (
        32,
        busy(
            killed_in_turn(16, seconds=60, every=7, starts=0.7), batch=100, ahead=160, jitter=0.05
        ),
    ),
    "long runs of killed workers": (
        32,
        busy(killed_in_turn(16, seconds=4800, every=60, starts=0.7), mean=10, over=2400),
    ),
    "one starts later, and one stops early": (
        48,
        busy([forever(16), Worker(10, 1e9, 16), Worker(0, 25, 16)]),
    ),
    "deployed again and again": (
        32,
        busy([Worker(10 * each, 10 * each + 10, 32) for each in range(6)]),
    ),
    "a window of it": (32, lambda: within(busy(TWO, over=20)(), 5, 12)),
    "a window of what killed workers did": (
        32,
        lambda: within(
            busy(killed_in_turn(16, seconds=60, every=7, starts=0.7), ahead=160, batch=100)(),
            10,
            20,
        ),
    ),
    "a window of long runs": (32, lambda: within(busy(TWO, mean=10, over=2000)(), 500, 900)),
}


@pytest.mark.parametrize(("slots", "make"), CASES.values(), ids=CASES)
def test_slots_and_waits_are_those_that_were(slots: int, make: Made) -> None:
    work = work_of(make())
    assert work

    table, facts = simulate([work])

    found = table.set_index("scenario")
    assert found["workers"]["As it was measured"] == slots
    assert found["workers"]["As today, simulated"] == slots
    assert facts["simulated_p99_s"] == pytest.approx(facts["measured_p99_s"], rel=0.05)
    measured = found["wait_p50_s"]["As it was measured"]
    assert found["wait_p50_s"]["As today, simulated"] == pytest.approx(measured, rel=0.05, abs=0.01)


def test_pools_have_slots_of_their_own() -> None:
    chance = np.random.default_rng(3)
    due = np.sort(chance.uniform(0, 30, COUNT)).tolist()
    channel = chance.integers(0, 3, COUNT).tolist()
    service = chance.exponential(0.1, COUNT).tolist()
    workers = [
        forever(16, channels=frozenset({0})),
        forever(16, channels=frozenset({1, 2})),
    ]
    frame = history(workers, due, service, channel=channel)
    works = [work_of(frame[frame["channel"].isin(mine)]) for mine in ({0}, {1, 2})]

    table, facts = simulate([work for work in works if work])

    assert list(table["workers"][:2]) == [32, 32]
    assert facts["error"] == pytest.approx(0, abs=0.05)


def test_pools_that_lived_one_after_the_other_are_not_added() -> None:
    chance = np.random.default_rng(3)
    parts = []
    for number, channel in enumerate((0, 1)):
        due = np.sort(chance.uniform(0, 10, COUNT // 2))
        service = chance.exponential(0.1, COUNT // 2).tolist()
        frame = history([forever(32)], due.tolist(), service)
        for name in ("due", "began", "ended"):
            frame[name] += number * 40_000_000
        parts.append(frame.assign(channel=channel, key=channel, worker=str(number)))
    works = [work_of(part) for part in parts]

    table, _ = simulate([work for work in works if work])

    assert list(table["workers"][:2]) == [32, 32]


def test_an_overlap_of_a_moment_counts_for_nothing() -> None:
    assert top([(0, 16), (50, 32), (51, 16), (100, 0)]) == 16
    assert top([(0, 16), (50, 32), (100, 0)]) == 32


def test_slots_of_pools_are_added_at_each_time() -> None:
    assert added([[(0, 2), (5, 0)], [(3, 1)]]) == [(0, 2), (3, 3), (5, 1)]
