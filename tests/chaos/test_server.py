"""A PostgreSQL that is stopped, crashes and comes back."""

from __future__ import annotations

import pytest

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage

LOST = """
SELECT (SELECT coalesce(sum(lost), 0) FROM pgqueue_history)
     + (SELECT coalesce(sum(lost), 0) FROM pgqueue_message)
"""


def load(stage: Stage) -> None:
    for _ in range(2):
        stage.producer(rate=120)
    for _ in range(2):
        stage.worker()
    stage.settles(50)


ALSO = pytest.mark.chaos


@pytest.mark.parametrize(
    "how", [pytest.param("fast", marks=ALSO), "immediate", pytest.param("killed", marks=ALSO)]
)
def test_an_outage_longer_than_a_lease_charges_no_message_as_lost(stage: Stage, how: str) -> None:
    load(stage)

    stage.keep_busy(6)
    with stage.fault():
        stage.server.stop(how)
        nap(3)
        stage.server.start()

    stage.end()
    assert stage.ask(LOST) == (0,)
    assert stage.untouched()


@pytest.mark.chaos
def test_a_server_that_restarts_again_and_again_loses_nothing(stage: Stage) -> None:
    load(stage)

    for how in ["fast", "immediate", "killed", "immediate", "fast"]:
        with stage.fault():
            stage.server.stop(how)
            nap(stage.random.uniform(0, 0.5))
            stage.server.start()
        nap(stage.random.uniform(0.1, 1))

    stage.end()
    assert stage.ask(LOST) == (0,)
