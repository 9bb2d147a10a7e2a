"""Whatever histories hypothesis thinks of, the event log is as a plain Python list.

`make model` goes on with others until its time is up; MODEL_SEED=… repeats one of its rounds, and
shrinks what fails.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from tests.factories import Connection
from tests.model.log import Machine
from tests.model.test_model import MINUTES, SEED, every_time, in_a_round, once_more, seeds


@pytest.mark.slow
def test_every_history_of_the_log_is_a_list(connect: Callable[..., Connection]) -> None:
    spare: list[Connection] = []

    def open_one() -> Connection:
        connection = connect()
        # A session that waits here waits for another's transaction, which this thread has open. An
        # autovacuum that truncates a table looks each 20 ms for sessions that wait for it.
        connection.execute("SET lock_timeout = '100ms'")
        return connection

    def machine() -> Machine:
        return Machine(open_one, spare)

    if SEED:
        run_state_machine_as_test(seed(SEED)(machine), settings=once_more)
    elif MINUTES:
        for number in seeds():
            run_state_machine_as_test(seed(number)(machine), settings=in_a_round)
    else:
        run_state_machine_as_test(machine, settings=every_time)
