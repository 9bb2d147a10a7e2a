"""How many workers are wanted where they come and go with the work there is."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from pgqueue.cluster.backlog import Backlog
from pgqueue.worker.config import WorkerConfig


def backlog(waiting: int, serving: int) -> Backlog:
    config = WorkerConfig(database="default", threads=4, grace=timedelta())
    found = Backlog(config, uuid4(), most=10)
    found._waiting, found._serving = waiting, serving
    return found


@pytest.mark.parametrize(
    ("waiting", "serving", "filled", "wanted"),
    [
        pytest.param(0, 0, 0, 0, id="none for nothing"),
        pytest.param(1, 0, 0, 1, id="one for a message"),
        pytest.param(9, 0, 0, 3, id="as many as the messages take"),
        pytest.param(9, 2, 2, 3, id="beside those that are busy"),
        pytest.param(9, 0, 3, 0, id="no more while enough of them start"),
        pytest.param(9, 1, 3, 1, id="as many as lack beside those that start"),
        pytest.param(400, 2, 2, 8, id="no more than there may be"),
        pytest.param(0, 5, 5, 0, id="none where the others are enough"),
    ],
)
def test_workers_are_wanted_for_what_waits(
    waiting: int, serving: int, filled: int, wanted: int
) -> None:
    assert backlog(waiting, serving).wanted(filled=filled, empty=10 - filled) == wanted
