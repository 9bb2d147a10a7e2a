"""How the past was served is found out, and what is replayed by it is what was measured.

The past of these tests is itself made by a replay, with rules that are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import pytest

from pgqueue.spark.pipeline.attempts import attempts
from pgqueue.spark.pipeline.capacity import estimate
from pgqueue.spark.pipeline.queueing import Jobs, Limit, Rules, replay
from pgqueue.spark.pipeline.simulation import (
    Window,
    Work,
    arrivals,
    simulate,
    together,
    window,
    work_of,
)
from tests.spark.messages import at, error, message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 5000


def past(
    rules: Rules,
    *,
    mean: float = 0.1,
    bursts: int = 0,
    channels: int = 1,
    seconds: float = 150,
) -> pandas.DataFrame:
    """Return what was measured of messages that came at random, or half of them in bursts."""
    chance = np.random.default_rng(3)
    due = chance.uniform(0, seconds, COUNT)
    if bursts:
        due[: COUNT // 2] = due[: COUNT // 2] % bursts + 20 * chance.integers(1, 6, COUNT // 2)
    due.sort()
    channel = chance.integers(0, channels, COUNT)
    service = chance.exponential(mean, COUNT)
    latency = chance.exponential(0.004, COUNT)
    none = np.zeros(COUNT, np.int64)
    began = replay(Jobs(due, service, channel, channel, none, latency), rules)
    ended = began + service
    worker = workers_of(began, ended, rules)
    return rows(due, began, ended, channel=channel, key=channel, worker=worker)


def rows(due: Any, began: Any, ended: Any, **changed: Any) -> pandas.DataFrame:
    times = {"due": due, "began": began, "ended": ended}
    micros = {name: (np.array(each) * 1e6).round().astype("int64") for name, each in times.items()}
    given = {
        "channel": 0,
        "key": 0,
        "priority": 0,
        "is_last": True,
        "worker": "w",
        "claim": range(len(due)),
        "is_exact": True,
        "is_lost": False,
        **dict.fromkeys(("is_before", "is_after", "is_running"), False),
        **changed,
    }
    return pandas.DataFrame({"id": range(len(due)), **micros, **given})


def workers_of(began: Any, ended: Any, rules: Rules) -> list[str]:
    """Return which worker of four slots may have run each, the first that has a slot free."""
    stops = [time for time, count in rules.slots if not count]
    slots: list[float] = []
    found = [""] * len(began)
    for job in np.argsort(began, kind="stable"):
        slot = next((n for n, until in enumerate(slots) if until <= began[job]), len(slots))
        slots[slot : slot + 1] = [ended[job]]
        life = sum(began[job] >= time for time in stops)
        found[job] = f"{life}-{slot // 4}"
    return found


def work(frame: pandas.DataFrame) -> Work:
    found = work_of(frame)
    assert found
    return found


@pytest.mark.parametrize(
    ("rules", "given"),
    [
        (Rules(slots=[(0, 8)], gap=0.001), {}),
        (Rules(slots=[(0, 4)], gap=0.001), {"mean": 0.113}),
        (Rules(slots=[(0, 8)], gap=0.001), {"bursts": 2}),
        (Rules(slots=[(0, 2)], gap=0.002), {"mean": 0.015, "bursts": 2}),
        (Rules(slots=[(0, 4), (40, 8), (80, 0), (100, 6)], gap=0.001), {}),
        (Rules(slots=[(0, 8)], channels={0: Limit(1)}), {"channels": 3}),
        (Rules(slots=[(0, 8)], channels={0: Limit(1, 0.1)}), {"channels": 3, "mean": 0.01}),
    ],
    ids=["idle", "busy", "bursts", "short", "workers come and go", "limit", "rate"],
)
def test_with_todays_workers_it_gives_todays_waits(rules: Rules, given: dict[str, Any]) -> None:
    _, facts = simulate([work(past(rules, **given))])

    assert facts["error"] == pytest.approx(0, abs=0.2)
    assert facts["simulated_p99_s"] == pytest.approx(facts["measured_p99_s"], rel=0.2)


def test_slow_claims_are_not_taken_for_a_lack_of_slots() -> None:
    chance = np.random.default_rng(3)
    due = np.sort(chance.uniform(0, 150, COUNT))
    began = due + chance.exponential(0.05, COUNT)

    table, facts = simulate([work(rows(due, began, began + chance.exponential(0.1, COUNT)))])

    assert facts["error"] == pytest.approx(0, abs=0.2)
    waits = table.set_index("scenario")["wait_p99_s"]
    assert waits["Twice the workers"] == pytest.approx(waits["As it was measured"], rel=0.2)


def test_slots_and_what_lies_between_two_runs_are_found() -> None:
    rules = estimate(work(past(Rules(slots=[(0, 8)], gap=0.02), bursts=2)).past, 0.02).rules

    assert {count for _, count in rules.slots} == {8}
    assert rules.gap == pytest.approx(0.02, rel=0.5)


def test_the_limit_of_a_channel_is_found() -> None:
    given = Rules(slots=[(0, 8)], channels={0: Limit(1)})
    frame = past(given, channels=3)
    found = work(frame)

    limits = estimate(found.past, 0.02).rules.channels

    [number] = {int(each) for each in found.past.channel[found.key_hash == 0]}
    assert {channel: limit.running for channel, limit in limits.items()} == {number: 1}


def test_scenarios_change_what_they_say() -> None:
    table, _ = simulate([work(past(Rules(slots=[(0, 8)]), bursts=2))], [("mail / a", 0)])

    found = table.set_index("scenario")
    assert list(found["kind"]) == ["measured", "today", *["workers"] * 3, "limit"]
    assert list(found["workers"]) == [8, 8, 4, 16, 32, 8]
    waits = found["wait_p99_s"]
    assert waits["Half the workers"] > 1.5 * waits["As today, simulated"]
    assert waits["Twice the workers"] < 0.7 * waits["As today, simulated"]
    assert waits["At most 2 at once of mail / a"] > waits["Half the workers"]
    assert found["utilisation"]["Half the workers"] == pytest.approx(
        2 * found["utilisation"]["As today, simulated"], rel=0.05
    )


def test_another_backoff_moves_what_follows_a_failure() -> None:
    # Failed at 1, and tried again 100 seconds later: 1 second each.
    frame = rows([0, 101], [0, 101], [1, 102], id=[7, 7], is_last=[False, True])

    table, _ = simulate([work(frame)])

    totals = table.set_index("scenario")["total_p99_s"]
    assert totals["As it was measured"] == 102
    assert totals["Retries after 10 seconds each"] == pytest.approx(12)
    assert totals["Retries after 1, 2, 4, 8 … seconds"] == pytest.approx(3)


def test_pools_of_workers_have_slots_of_their_own() -> None:
    assert together([[1, 2], [3], [2, 4]]) == [{3}, {1, 2, 4}]


def test_without_messages_there_is_nothing_to_replay() -> None:
    table, facts = simulate([])

    assert len(table) == 0
    assert facts == {}
    assert work_of(rows([], [], [])) is None


def test_what_waits_when_they_begin_to_come_is_replayed_before_them() -> None:
    # A slot that takes a second for each: ten wait when the window begins, after 100 seconds.
    due = [*range(90, 100), *range(100, 120)]
    began = [100 + each for each in range(30)]
    ended = [each + 1 for each in began]
    is_before = [time < 100 for time in due]

    table, facts = simulate([work(rows(due, began, ended, is_before=is_before))])

    assert facts["measured_p99_s"] == pytest.approx(10)
    assert facts["simulated_p99_s"] == pytest.approx(10, rel=0.05)
    assert list(table["workers"][:2]) == [1, 1]


def test_of_many_attempts_those_of_the_longest_backlog_are_replayed() -> None:
    table = pandas.DataFrame(
        {
            "at": pandas.to_datetime([at(10 * each) for each in range(6)]),
            "arrived": [5, 5, 5, 5, 5, 5],
            "failed_attempts": [0, 0, 0, 1, 0, 0],
            "backlog": [0, 9, 0, 8, 8, 0],
        }
    )

    assert window(table, 10, most=11) == (at(30), at(50))
    assert window(table, 10) == (at(0), at(60))
    assert window(table, 10, most=2) == (at(10), at(14))
    assert window(table.head(0), 10) is None


def test_a_window_has_what_shared_its_slots(spark: SparkSession) -> None:
    lost = error(1, 95, **{"class": "pgqueue.exceptions.LeaseLost"})
    ended = [
        message(10, 5, 50, id=1),  # over when the window begins
        message(90, 5, 20, id=2),  # runs then
        message(95, 10, 2, id=3),  # waits then
        message(100, 5, 2, id=4),
        message(110, 25, 2, id=5),  # begins after the window's end
        message(122, 8, 2, id=6),  # began before that
        message(125, 10, 2, id=7),  # began with it
        message(100, 5, 2, id=8, errors=[lost], lost=1, failures=0, attempt=2, created_at=at(80)),
    ]

    found = arrivals(attempts(runs(spark, ended)), Window(at(100), at(120)))

    rows = found.set_index("id").sort_index()
    assert sorted(rows.index) == [2, 3, 4, 5, 6, 8]
    for name, numbers in {
        "is_running": [2],
        "is_before": [2, 3],
        "is_after": [6],
        "is_exact": [2, 3, 4, 5, 6, 8],
    }.items():
        assert list(rows.index[rows[name]]) == numbers
    assert rows["began"][2] == at(100).timestamp() * 1e6
    assert set(rows["worker"]) == {"w"}


def test_an_attempt_knows_its_worker_and_its_claim(spark: SparkSession) -> None:
    lost = error(1, 95, worker="dead", **{"class": "pgqueue.exceptions.LeaseLost"})
    rows = [
        message(100, 5, 2, id=1, errors=[lost], lost=1, failures=0, attempt=2, created_at=at(80)),
        message(100, 5, 2, id=2, outcome="discarded"),
    ]

    found = attempts(runs(spark, rows)).orderBy("ended_at", "id").collect()

    assert [(each.id, each.worker_id, each.is_lost, each.is_exact) for each in found] == [
        (1, "dead", True, False),
        (1, "w", False, True),
        (2, "w", False, False),
    ]
    assert [each.claimed_at is None for each in found] == [True, False, False]
