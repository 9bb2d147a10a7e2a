"""Close the connections that a thread's tasks opened, by Django's rules, and quickly."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psycopg.errors import FeatureNotSupported, ReadOnlySqlTransaction

from pgqueue.engine.errors import is_caused_by

logger = logging.getLogger(__name__)

READ_ONLY = ("in_hot_standby", "default_transaction_read_only")


class _Opened(threading.local):
    def __init__(self) -> None:
        self.here: list[BaseDatabaseWrapper] = []


_opened = _Opened()


@receiver(connection_created, dispatch_uid="pgqueue.worker.closing")
def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    others = [each for each in _opened.here if each.connection and each is not connection]
    _opened.here = [*others, connection]


@contextmanager
def kept_open() -> Iterator[None]:
    """Close none of this thread's connections in the block: they are the caller's, a test's."""
    theirs = list(_opened.here)
    _opened.here[:] = []
    try:
        yield
    finally:
        _opened.here[:] = [*theirs, *_opened.here]


def close_old_connections() -> None:
    """Do as Django does after a request: by CONN_MAX_AGE, and what broke. Never raises.

    Django looks for a thread's connections each time, which takes as long as the smallest
    tasks; but most of those have none.
    """
    _see_to_each(_close_if_old)


def close_broken_connections() -> None:
    """Close only what broke; whatever CONN_MAX_AGE says, the others are in use. Never raises."""
    _see_to_each(_close_if_broken)


def close_after(error: BaseException) -> None:
    """Close what leads to a read-only server, if this is how it refused a run. Never raises."""
    if is_refusal(error):
        close_read_only_connections()


def is_refusal(error: BaseException) -> bool:
    """Say whether a read-only server may have said so: to who writes, or is to be serializable.

    A connection knows less. Whoever only reads may do so there, and Django forgets with the end of
    each transaction that there were errors.
    """
    return is_caused_by(error, ReadOnlySqlTransaction, FeatureNotSupported)


def close_read_only_connections() -> None:
    """Close those that lead to a standby, or what else is read-only as a whole. Never raises."""
    _see_to_each(_close_if_read_only)


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
    if not wrapper.is_usable():
        wrapper.close()


def _close_if_read_only(wrapper: BaseDatabaseWrapper) -> None:
    """Close what Django finds usable, and would keep for long.

    A name may have lagged behind a failover when it was opened.
    """
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql" or own.closed or wrapper.in_atomic_block:
        return
    if "on" in map(own.info.parameter_status, READ_ONLY):
        own.close()  # a pool of Django's would give it to the next one
        wrapper.close()
