"""When the duties of a process are due again, and which of them share a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from pgqueue.duties.agenda import Agenda
from pgqueue.duties.base import Duty
from pgqueue.duties.promote import Promote
from tests.factories import LEASE, SOON, Connection, enqueue


class Due:
    """A duty that is due again after some seconds."""

    did: Mapping[str, int] = {}

    def __init__(self, number: int, seconds: float) -> None:
        self.name = f"due {number}"
        self.again_in = timedelta(seconds=seconds)

    def may_run(self, answered_for: timedelta) -> bool:
        return True

    def run(self, connection: Connection) -> timedelta:
        return self.again_in


def nap(connection: Connection, seconds: Sequence[float], *others: Duty) -> float:
    """Do duties that are due again after so many seconds; return the nap in seconds."""
    duties = [Due(number, each) for number, each in enumerate(seconds)]
    agenda = Agenda([*duties, *others], lease=LEASE)
    return agenda.run_due(connection, lambda _, duty, __: duty.run(connection)).total_seconds()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([0.3, 0.35, 0.39], 0.39),  # one turn for all of them
        ([0.3, 0.35, 0.5], 0.35),
        ([0.3, 0.39, 0.48], 0.39),  # none waits longer than that for another one
        ([0, 0.05], 0.005),  # a duty that has more to do goes on at once
    ],
)
def test_duties_that_are_due_soon_after_one_another_share_a_turn(
    connection: Connection, seconds: list[float], expected: float
) -> None:
    assert nap(connection, seconds) == pytest.approx(expected, abs=0.001)


def test_a_message_that_is_due_waits_for_no_duty(connection: Connection) -> None:
    enqueue(connection, run_after=timedelta(seconds=0.3))
    enqueue(connection, run_after=SOON)

    found = nap(connection, [0.31, 0.39], Promote())

    assert found <= 0.3
