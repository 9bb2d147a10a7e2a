"""Keep the Django connections of a worker's threads clean: one task must not disturb the next.

A thread looks only at the connections that were opened in it, and asks the database nothing unless
an error occurred there: this is done after every task, however small.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psycopg.errors import FeatureNotSupported, ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from pgqueue.engine.errors import is_caused_by

logger = logging.getLogger(__name__)

READ_ONLY = ("in_hot_standby", "default_transaction_read_only")
# As psycopg reports a connection in COPY, too: it is active.
IN_TRANSACTION = (
    TransactionStatus.ACTIVE,
    TransactionStatus.INTRANS,
    TransactionStatus.INERROR,
)


class _Opened(threading.local):
    def __init__(self) -> None:
        self.here: list[BaseDatabaseWrapper] = []


_opened = _Opened()


@receiver(connection_created, dispatch_uid="pgqueue.worker.django_connections")
def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    others = [each for each in _opened.here if each.connection and each is not connection]
    # In place: an event loop looks at the list of another thread.
    _opened.here[:] = [*others, connection]


@contextmanager
def kept_open() -> Iterator[None]:
    """Leave the connections that this thread has now alone in the block: they are a test's."""
    before = list(_opened.here)
    _opened.here[:] = []
    try:
        yield
    finally:
        _opened.here[:] = [*before, *_opened.here]


def opened_here() -> list[BaseDatabaseWrapper]:
    """Return the connections opened in this thread, as a list that goes on to show them."""
    return _opened.here


def are_any_in_transaction(opened: Iterable[BaseDatabaseWrapper]) -> bool:
    """Return whether one of these connections is in a transaction, COPY or pipeline.

    Any thread may ask: of a connection in use the answer may be True without one being left open,
    but never False where one is.
    """
    return any(map(_is_in_transaction, list(opened)))


def roll_back_open(*, atomic: str | None = None) -> list[str]:
    """Close the connections of this thread with an open transaction, COPY or pipeline.

    The server rolls back then. Never raises.

    Args:
        atomic: the alias whose transaction is the worker's. It is only closed if its task has left
            it in COPY or pipeline mode, where the worker can't go on.

    Returns:
        The aliases of what was closed.
    """
    left = []
    for wrapper in list(_opened.here):
        is_open = _is_busy if wrapper.alias == atomic else _is_in_transaction
        if is_open(wrapper):
            left.append(wrapper.alias)
            _close_safely(_leave if wrapper.alias != atomic else _cut, wrapper)
    return left


def close_old_connections() -> None:
    """Close what CONN_MAX_AGE says, what broke, and what is in a transaction. Never raises.

    This is what Django does after a request. But Django looks for a thread's connections each
    time, which takes as long as the smallest tasks, most of which have none.
    """
    _close_each(_close_if_old)


def close_broken_connections() -> None:
    """Close only what broke, whatever CONN_MAX_AGE says: the others are in use. Never raises."""
    _close_each(_close_if_broken)


def close_after(error: BaseException) -> None:
    """Close connections to read-only servers if `error` is a refusal of one. Never raises."""
    if is_refusal(error):
        close_read_only_connections()


def is_refusal(error: BaseException) -> bool:
    """Return whether a read-only server may have caused it: by refusing a write or SERIALIZABLE.

    The connection can't tell: reading is allowed there, and Django forgets the errors of a
    transaction when it ends.
    """
    return is_caused_by(error, ReadOnlySqlTransaction, FeatureNotSupported)


def close_read_only_connections() -> None:
    """Close the connections to a standby, or to another read-only server. Never raises."""
    _close_each(_close_if_read_only)


def _close_each(close: Callable[[BaseDatabaseWrapper], None]) -> None:
    for wrapper in list(_opened.here):
        _close_safely(close, wrapper)


def _close_safely(
    close: Callable[[BaseDatabaseWrapper], None], wrapper: BaseDatabaseWrapper
) -> None:
    try:
        close(wrapper)
    except BaseException:
        # The caller may have a message to settle.
        with suppress(BaseException):
            logger.exception("The connection to %s can't be closed", wrapper.alias)


def _is_in_transaction(wrapper: BaseDatabaseWrapper) -> bool:
    own = wrapper.connection
    if wrapper.in_atomic_block or own is None or wrapper.vendor != "postgresql":
        return wrapper.in_atomic_block
    return own.pgconn.transaction_status in IN_TRANSACTION or bool(own.pgconn.pipeline_status)


def _is_busy(wrapper: BaseDatabaseWrapper) -> bool:
    """Return whether the connection is in COPY or pipeline mode, and takes no other statement."""
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql":
        return False
    is_active: bool = own.pgconn.transaction_status == TransactionStatus.ACTIVE
    return is_active or bool(own.pgconn.pipeline_status)


def _close_if_old(wrapper: BaseDatabaseWrapper) -> None:
    if _is_in_transaction(wrapper):
        _leave(wrapper)
    wrapper.close_if_unusable_or_obsolete()


def _leave(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection that is still in a transaction though nothing uses it any more.

    The task has left it open, or a timeout arrived while Django was leaving it. Django would not
    connect again, and each later task of this thread would fail, or be rolled back in the end.
    """
    logger.warning("A task has left a transaction on %s open: it is rolled back", wrapper.alias)
    _cut(wrapper)
    wrapper.in_atomic_block = wrapper.closed_in_transaction = False
    wrapper.close()


def _cut(wrapper: BaseDatabaseWrapper) -> None:
    """Close the connection itself: a pool of Django's would keep it as it is."""
    own = wrapper.connection
    if own is None:
        return
    own.close()
    if own.lock.locked():
        # By a COPY that was never left: Django's rollback would wait for it for ever.
        own.lock = threading.Lock()


def _close_if_broken(wrapper: BaseDatabaseWrapper) -> None:
    if wrapper.connection is None or not wrapper.errors_occurred:
        return
    if not wrapper.is_usable():
        wrapper.close()


def _close_if_read_only(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection that Django finds usable, and would keep for long.

    A DNS name may have lagged behind a failover when it was opened.
    """
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql" or own.closed or wrapper.in_atomic_block:
        return
    if "on" in map(own.info.parameter_status, READ_ONLY):
        _cut(wrapper)
        wrapper.close()
