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


def wrapper(*, failed: bool = True, standby: str | None = "off") -> Mock:
    """Return one of Django's connections to PostgreSQL, which is as usable as ever."""
    its = Mock(closed=False, info=Mock(parameter_status={"in_hot_standby": standby}.get))
    return Mock(connection=its, errors_occurred=failed, in_atomic_block=False, vendor="postgresql")


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


@BOTH
@pytest.mark.parametrize(
    ("failed", "standby", "is_closed"),
    [(True, "on", True), (True, "off", False), (True, None, False), (False, "on", False)],
)
def test_one_that_leads_to_a_standby_is_closed_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
    close: Close,
    failed: bool,
    standby: str | None,
    is_closed: bool,
) -> None:
    its = wrapper(failed=failed, standby=standby)
    opened(monkeypatch, its)

    close()

    assert its.close.called == is_closed
