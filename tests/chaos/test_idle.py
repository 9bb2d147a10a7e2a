"""Hatchet's engine sent 300 000 statements a day for ten tasks: the cost of an idle fleet.

`docs/operations.md` has these figures. The server logs each statement that a worker sends.
"""

from __future__ import annotations

import re
from collections import Counter
from time import monotonic

import pytest

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

WATCHED_FOR = 20.0
"""Seconds: four naps of an idle fetcher, and two beats of a lease of 30 s."""
FIRST, FURTHER = 330_000, 200_000
"""Statements an hour: of the worker that does the duties, and of each further worker."""
IDLE = "SELECT count(*) FROM pgqueue_worker WHERE notify_until IS NOT NULL"
SENT = re.compile(r"^\S+ \S+ \S+ \[\d+\] pgqueue (\w+) LOG:  (?:execute|statement)", re.MULTILINE)


def statements_an_hour(stage: Stage, *, workers: int) -> Counter[str]:
    """Return how many statements the services of idle workers send, by the name of the service."""
    eventually(lambda: stage.ask(IDLE) == (workers,), within=20, what="they are idle")
    nap(10)  # until their naps are as long as they get, and each duty has been done
    before, began = len(stage.server.log()), monotonic()
    nap(WATCHED_FOR)
    sent = Counter(SENT.findall(stage.server.log()[before:]))
    hours = (monotonic() - began) / 3600
    return Counter({name: round(count / hours) for name, count in sent.items()})


@pytest.mark.nightly
def test_an_idle_worker_sends_a_bounded_number_of_statements(stage: Stage) -> None:
    stage.server.stop()
    stage.server.settings["log_statement"] = "all"
    stage.server.start()

    stage.worker(PGQUEUE_LEASE="30")
    first = statements_an_hour(stage, workers=1)
    stage.worker(PGQUEUE_LEASE="30")
    both = statements_an_hour(stage, workers=2)

    further = both.total() - first.total()
    print(f"statements an hour of an idle worker: {first}, {first.total()}; of another: {further}")
    assert set(first) >= {"duties", "fetcher", "heartbeat"}
    assert first.total() < FIRST
    assert further < FURTHER
    stage.end()
