"""Whatever histories hypothesis thinks of, the engine does what the model allows.

`make model` goes on with others until its time is up; MODEL_SEED=… repeats one of its rounds, and
shrinks what fails.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from pgqueue.claiming import claimer
from pgqueue.engine import partitions
from tests.factories import Connection
from tests.model.machine import CLIENTS, WORKERS, Clock, Machine

MINUTES = float(os.environ.get("MODEL_MINUTES", 0))
SEED = int(os.environ.get("MODEL_SEED", 0))
FIRST = int(os.environ.get("MODEL_FIRST_SEED", 0)) or random.getrandbits(32)
"""The seed from which those of the rounds are drawn."""

every_time = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Shrinking takes minutes, more than a test may.
    phases=[Phase.generate],
)
in_a_round = settings(
    every_time, max_examples=60, stateful_step_count=80, derandomize=False, database=None
)
once_more = settings(in_a_round, phases=[Phase.generate, Phase.shrink])


@pytest.fixture
def connections(connect: Callable[..., Connection]) -> list[Connection]:
    connections = [connect() for _ in range(CLIENTS + WORKERS)]
    partitions.ensure(connections[0])
    for each in connections:
        # A session that waits here waits for another's transaction, which this thread has open. An
        # autovacuum that truncates a table looks each 20 ms for sessions that wait for it.
        each.execute("SET lock_timeout = '100ms'")
    return connections


@pytest.mark.slow
def test_every_history_is_as_the_model_allows(
    connections: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(claimer, "time", clock)

    def machine() -> Machine:
        return Machine(connections, clock)

    if SEED:
        run_state_machine_as_test(seed(SEED)(machine), settings=once_more)
    elif MINUTES:
        for number in seeds():
            run_state_machine_as_test(seed(number)(machine), settings=in_a_round)
    else:
        run_state_machine_as_test(machine, settings=every_time)


def seeds() -> Iterator[int]:
    """Yield seeds until an eighth of the time is up: four tests do so, others use half of it."""
    until = time.monotonic() + 60 * MINUTES / 8
    chance = random.Random(FIRST)
    while time.monotonic() < until:
        number = chance.getrandbits(32)
        print(f"model: {in_a_round.max_examples} histories of MODEL_SEED={number}", flush=True)
        yield number
