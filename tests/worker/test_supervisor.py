"""What the first process of several does where the machine has no room."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest

from pgqueue import signals
from pgqueue.worker import supervisor
from pgqueue.worker.plan import Plan
from pgqueue.worker.supervisor import Supervisor


@pytest.fixture
def errors() -> Iterator[list[Exception]]:
    """What services report."""
    errors: list[Exception] = []

    def note(error: Exception, **kwargs: Any) -> None:
        errors.append(error)

    signals.service_failed.connect(note)
    yield errors
    signals.service_failed.disconnect(note)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervisor]:
    """One of two processes, whose liveness file has no folder."""
    plan = Plan(
        database="default",
        threads=1,
        processes=2,
        grace=timedelta(seconds=1),
        liveness_file=tmp_path / "gone" / "alive",
    )
    supervised = Supervisor(plan)
    yield supervised
    supervised._requests.close()


def test_a_process_that_cannot_be_started_is_tried_again_later(
    supervised: Supervisor, errors: list[Exception]
) -> None:
    with patch.object(supervisor, "Child", side_effect=BlockingIOError("no process")) as child:
        supervised._fill()
        assert [str(error) for error in errors] == ["no process"] * 2
        supervised._fill()
        assert child.call_count == 2
        for slot in supervised._slots:
            assert monotonic() < slot.fill_at < monotonic() + 1
            slot.fill_at = 0

        child.side_effect = None
        supervised._fill()

    assert supervised._children() == [child.return_value] * 2


def test_a_liveness_file_that_cannot_be_touched_is_reported(
    supervised: Supervisor, errors: list[Exception]
) -> None:
    with (
        patch.object(supervisor, "LOOK", timedelta(seconds=0.01)),
        patch.object(Supervisor, "_children", lambda self: [self]),
        patch.object(Supervisor, "signs", [], create=True),
    ):
        supervised._wait()

    assert [type(error) for error in errors] == [FileNotFoundError]
