"""All states of the small models keep the invariants, and each planted fault is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.small.governed import Governed, GovernedState
from tests.model.small.search import Visited, visit
from tests.model.small.signals import Signals, SignalState

FEW = Governed(lane_of=(0, 0, 1), workers=2)
MANY = Governed(lane_of=(0, 0, 0, 1), workers=3, cancels=0)
ONE = Signals(messages=1, waits=2, workers=2)
TWO = Signals(messages=2, waits=2, workers=3, timeouts=0, locks=0)


def governed(model: Governed) -> Visited[GovernedState]:
    """Visit all states of a model of lanes."""
    return visit(
        model.first(),
        model.steps,
        {
            "limits hold": model.limits_hold,
            "only the lease settles": model.only_the_lease_settles,
            "no contradictions": model.no_contradictions,
        },
        at_the_end={"all have ended": model.all_have_ended},
    )


def signals(model: Signals) -> Visited[SignalState]:
    """Visit all states of a model of waits."""
    return visit(
        model.first(),
        model.steps,
        {
            "no signal is missed": model.no_signal_is_missed,
            "each signal ends one wait": model.each_signal_ends_one_wait,
            "ended messages are through": model.ended_messages_are_through,
            "only the lease writes": model.only_the_lease_writes,
        },
        at_the_end={"all have ended": model.all_have_ended},
    )


@pytest.mark.parametrize(
    "model",
    [
        replace(FEW, zombies=0, cancels=0),
        replace(FEW, crashes=0, cancels=0),
        replace(FEW, crashes=0, zombies=0),
        replace(FEW, lane_of=(0, 1), gate=1, cancels=0),
    ],
    ids=["a crash", "a zombie", "a cancel", "a gate"],
)
def test_lanes_keep_their_promises_in_every_state(model: Governed) -> None:
    found = governed(model)

    assert not found.violated, str(found)
    assert found.states > 1000


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "model",
    [MANY, replace(MANY, gate=2), replace(MANY, zombies=0, cancels=1)],
    ids=["a zombie", "a gate", "a cancel"],
)
def test_three_workers_and_four_messages_do_so_too(model: Governed) -> None:
    found = governed(model)

    print(f"{found.states} states")
    assert not found.violated, str(found)


@pytest.mark.parametrize(
    ("fault", "violated"),
    [
        ("settle rings no bell", "no contradictions"),
        ("mark only lanes that are not runnable", "no contradictions"),
        ("idle means that none can be locked", "no contradictions"),
        ("count in the statement that locks", "no contradictions"),
        ("no fence", "only the lease settles"),
    ],
)
def test_a_fault_in_lanes_is_found(fault: str, violated: str) -> None:
    found = governed(replace(FEW, fault=fault))

    assert found.violated == violated, str(found)
    assert 2 < len(found.trace) < 20


def test_signals_keep_their_promises_in_every_state() -> None:
    found = signals(ONE)

    assert not found.violated, str(found)
    assert found.states > 1000


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "model", [replace(TWO, zombies=0), replace(TWO, crashes=0)], ids=["a crash", "a zombie"]
)
def test_three_workers_and_four_signals_do_so_too(model: Signals) -> None:
    found = signals(model)

    print(f"{found.states} states")
    assert not found.violated, str(found)


@pytest.mark.parametrize(
    ("fault", "violated"),
    [
        ("a signal rings no bell", "no signal is missed"),
        ("a wait rings no bell", "no signal is missed"),
        ("the router takes bells after its look", "no signal is missed"),
        ("no fence", "only the lease writes"),
    ],
)
def test_a_fault_in_signals_is_found(fault: str, violated: str) -> None:
    found = signals(replace(ONE, fault=fault))

    assert found.violated == violated, str(found)
    assert 2 < len(found.trace) < 20


def test_a_model_that_is_too_large_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than 10 states"):
        visit(0, lambda n: [("next", n + 1)], {}, at_the_end={}, most=10)
