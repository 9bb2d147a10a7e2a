"""What becomes of the connections that a thread's tasks opened."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from pgqueue.worker import closing

Close = Callable[[], None]

BOTH = pytest.mark.parametrize(
    "close", [closing.close_old_connections, closing.close_broken_connections]
)


def opened(monkeypatch: pytest.MonkeyPatch, *wrappers: Mock) -> None:
    monkeypatch.setattr(closing._opened, "here", list(wrappers))


def wrapper() -> Mock:
    """Return one of Django's connections to PostgreSQL, which is as usable as ever."""
    return Mock(errors_occurred=True, in_atomic_block=False)


@BOTH
def test_one_that_cannot_be_closed_keeps_nobody_from_his_message(
    monkeypatch: pytest.MonkeyPatch, close: Close
) -> None:
    first, second = wrapper(), wrapper()
    first.is_usable.side_effect = first.close_if_unusable_or_obsolete.side_effect = SystemExit
    second.is_usable.return_value = False
    opened(monkeypatch, first, second)

    close()

    assert second.close.called or second.close_if_unusable_or_obsolete.called
