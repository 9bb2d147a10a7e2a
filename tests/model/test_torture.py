"""Producers, workers, operators and duties at once, beside an auditor, without a deadlock."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.engine.conftest import TABLES
from tests.factories import Connection
from tests.model.test_model import FIRST, SEED
from tests.model.torture import Torture

MINUTES = float(os.environ.get("MODEL_MINUTES", 0))
A_ROUND = 20.0
"""Seconds: longer, and what ended would slow down the look at what did not."""


@pytest.mark.slow
def test_everything_ends_once_and_no_limit_is_exceeded(
    connect: Callable[..., Connection],
) -> None:
    if not MINUTES:
        Torture(connect).run(4)
    connection = connect()
    until = time.monotonic() + 60 * MINUTES / 4
    chance = random.Random(FIRST)
    while time.monotonic() < until:
        number = SEED or chance.getrandbits(32)
        print(f"torture: a round of MODEL_SEED={number}", flush=True)
        random.seed(number)  # of what the actors choose; not of their timing
        torture = Torture(connect)
        torture.run(A_ROUND)
        print(f"torture: {torture}", flush=True)
        connection.execute("; ".join(f"DELETE FROM pgqueue_{each}" for each in TABLES))  # noqa: S608
