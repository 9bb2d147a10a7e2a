"""Close the connections that a thread's tasks opened, by Django's rules, and quickly."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver

logger = logging.getLogger(__name__)


class _Opened(threading.local):
    def __init__(self) -> None:
        self.here: list[BaseDatabaseWrapper] = []


_opened = _Opened()


@receiver(connection_created, dispatch_uid="pgqueue.worker.closing")
def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    others = [each for each in _opened.here if each.connection and each is not connection]
    _opened.here = [*others, connection]


def close_old_connections() -> None:
    """Do as Django does after a request: by CONN_MAX_AGE, and what broke. Never raises.

    Django looks for a thread's connections each time, which takes as long as the smallest
    tasks; but most of those have none.
    """
    _see_to_each(_close_if_old)


def close_broken_connections() -> None:
    """Close only what broke; whatever CONN_MAX_AGE says, the others are in use. Never raises."""
    _see_to_each(_close_if_broken)


def _see_to_each(close: Callable[[BaseDatabaseWrapper], None]) -> None:
    for wrapper in _opened.here:
        try:
            close(wrapper)
        except BaseException:
            # Whoever calls this may have a message in hand.
            with suppress(BaseException):
                logger.exception("The connection to %s can't be closed", wrapper.alias)


def _close_if_old(wrapper: BaseDatabaseWrapper) -> None:
    if wrapper.in_atomic_block:
        _leave(wrapper)
    if wrapper.errors_occurred and _is_standbys(wrapper):
        wrapper.close()
    wrapper.close_if_unusable_or_obsolete()


def _leave(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection that is still in a transaction, though nothing runs any more.

    A timeout may arrive while Django leaves one, or the task itself has left one open. Django
    would never connect anew, and each later task of this thread would fail.
    """
    logger.warning("A task has left a transaction on %s open: it is rolled back", wrapper.alias)
    wrapper.in_atomic_block = wrapper.closed_in_transaction = False
    wrapper.close()


def _close_if_broken(wrapper: BaseDatabaseWrapper) -> None:
    if wrapper.connection is None or not wrapper.errors_occurred:
        return
    if _is_standbys(wrapper) or not wrapper.is_usable():
        wrapper.close()


def _is_standbys(wrapper: BaseDatabaseWrapper) -> bool:
    """Whether it leads to a standby. Django finds that usable, and would keep it for long.

    A name may have lagged behind a failover when it was opened. It is asked about only after an
    error: whoever only reads may do so there.
    """
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql" or own.closed:
        return False
    return bool(own.info.parameter_status("in_hot_standby") == "on")
