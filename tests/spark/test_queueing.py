"""The replay of a queue: small ones that a person can follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pgqueue.spark.pipeline.queueing import Jobs, Limit, Rules, _by_turns, _in_order, replay


def jobs(due: list[float], service: list[float], **given: list[Any]) -> Jobs:
    nothing = [0] * len(due)
    return Jobs(
        np.array(due, float),
        np.array(service, float),
        *(np.array(given.get(name, nothing), int) for name in ("channel", "key", "priority")),
        np.array(given.get("latency", nothing), float),
    )


def served(slots: int = 1, **given: Any) -> Rules:
    return Rules(slots=[(0.0, slots)], **given)


def test_one_slot_runs_one_after_the_other() -> None:
    begun = replay(jobs([0, 1, 2, 20], [5, 5, 5, 5]), served())

    assert list(begun) == [0, 5, 10, 20]


def test_two_slots_run_two_at_once() -> None:
    assert list(replay(jobs([0, 0, 0], [5, 4, 1]), served(2))) == [0, 0, 4]


def test_higher_priorities_come_first() -> None:
    begun = replay(jobs([0, 1, 2], [5, 5, 5], priority=[0, 0, 9]), served())

    assert list(begun) == [0, 10, 5]


def test_channels_and_keys_take_turns() -> None:
    by_channel = jobs([0, 1, 1, 1], [5, 5, 5, 5], channel=[0, 0, 0, 1], key=[0, 0, 0, 1])
    by_key = jobs([0, 1, 1, 1], [5, 5, 5, 5], key=[0, 0, 0, 1])

    assert list(replay(by_channel, served())) == [0, 5, 15, 10]
    assert list(replay(by_key, served())) == [0, 5, 15, 10]


def test_without_turns_what_is_due_first_comes_first() -> None:
    work = jobs([0, 1, 2, 3], [5, 5, 5, 5], channel=[0, 0, 0, 1], key=[0, 0, 0, 1])

    assert list(replay(work, served(takes_turns=False))) == [0, 5, 10, 15]
    assert list(replay(work, served(2, takes_turns=False, channels={0: Limit(1)}))) == [0, 5, 10, 3]


def test_a_channel_has_its_limit_and_others_pass() -> None:
    work = jobs([0, 0, 0], [5, 5, 5], channel=[0, 0, 1], key=[0, 1, 2])

    assert list(replay(work, served(3, channels={0: Limit(1)}))) == [0, 5, 0]
    assert list(replay(work, served(3, channels={0: Limit(1, gap=2)}))) == [0, 7, 0]


def test_a_key_has_its_limit_and_others_pass() -> None:
    work = jobs([0, 0, 0], [5, 5, 5], key=[0, 0, 1])

    assert list(replay(work, served(3, keys={0: Limit(1)}))) == [0, 5, 0]


def test_slots_come_and_go_and_what_runs_is_finished() -> None:
    rules = Rules(slots=[(0.0, 2), (1.0, 0), (10.0, 1)])

    assert list(replay(jobs([0, 0, 2, 3], [5, 5, 5, 5]), rules)) == [0, 0, 10, 15]


def test_without_slots_nothing_begins() -> None:
    assert np.isnan(replay(jobs([0], [5]), Rules(slots=[]))).all()


def test_a_free_slot_takes_its_time_and_a_busy_one_a_gap() -> None:
    begun = replay(jobs([0, 0], [5, 5], latency=[1, 1]), served(gap=2))

    assert list(begun) == [1, 8]


def test_waits_are_those_of_the_theory() -> None:
    # M/M/1 at 80 %: the mean wait is 4 services (Erlang C).
    chance = np.random.default_rng(5)
    due = np.cumsum(chance.exponential(1.25, 100_000))
    work = jobs(list(due), list(chance.exponential(1.0, 100_000)))

    waits = replay(work, served()) - due

    assert waits.mean() == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("seed", range(30))
def test_in_order_of_their_times_they_begin_as_by_turns(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 300))
    due = np.sort(
        chance.choice([chance.uniform(0, 5, count), chance.integers(0, 9, count)], axis=0)
    )
    work = jobs(
        list(due),
        list(chance.exponential(0.1, count)),
        channel=list(chance.integers(0, 3, count)),
        latency=list(chance.exponential(0.01, count)),
    )
    times = [0.0, *np.sort(chance.uniform(0, 6, chance.integers(0, 6)))]
    slots = [(float(time), int(chance.integers(0, 6))) for time in times]
    rules = Rules(slots=slots, gap=float(chance.choice([0, 0.02])), takes_turns=False)

    np.testing.assert_array_equal(_in_order(work, rules), _by_turns(work, rules))
