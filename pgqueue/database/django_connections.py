"""Keep the Django connections of threads that run the user's code open and clean for the next call.

With CONN_MAX_AGE 0, Django's default, a connection is kept while its thread has work: to connect
for each task costs more than most tasks. So no task may leave a trace on it for the next one: it is
closed after a task that left a transaction open, or that may have changed the session.

A thread looks only at the connections that were opened in it, and asks the database nothing unless
an error occurred there: this is done after every task, however small.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psycopg.errors import FeatureNotSupported, ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from pgqueue.conf import settings
from pgqueue.database import forking, session_state
from pgqueue.values.causes import is_caused_by
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

MAX_AGE = timedelta(minutes=10)
"""How long a connection is kept that Django would close at once."""
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
        self.is_a_workers = False


_opened = _Opened()


@receiver(connection_created, dispatch_uid="pgqueue.database.django_connections")
def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    others = [each for each in _opened.here if each.connection and each is not connection]
    # In place: an event loop looks at the list of another thread.
    _opened.here[:] = [*others, connection]
    if _opened.is_a_workers and connection.vendor == "postgresql":
        session_state.watch(connection.connection)
        if _is_kept(connection):
            connection.close_at = monotonic() + MAX_AGE.total_seconds()


def _is_kept(wrapper: BaseDatabaseWrapper) -> bool:
    """Return whether it is kept while there is work, although Django would close it at once."""
    own = wrapper.settings_dict
    is_candidate = wrapper.vendor == "postgresql" and own["CONN_MAX_AGE"] == 0
    return is_candidate and not own["OPTIONS"].get("pool") and settings().keep_connections


def begin_thread() -> list[BaseDatabaseWrapper]:
    """Note that this thread runs the user's code: its connections are watched, and may be kept.

    Returns:
        The connections opened in this thread: a list that is kept up to date.
    """
    _opened.is_a_workers = True
    forking.serve()
    return _opened.here


@contextmanager
def kept_open() -> Iterator[None]:
    """Leave the connections that this thread has now alone in the block: they are a test's."""
    before = list(_opened.here)
    _opened.here[:] = []
    try:
        yield
    finally:
        _opened.here[:] = [*before, *_opened.here]


def are_any_open() -> bool:
    """Return whether this thread has connections."""
    return any(each.connection for each in _opened.here)


def have_any_changed(opened: Iterable[BaseDatabaseWrapper]) -> bool:
    """Return whether a statement may have changed the session of one. Any thread may ask."""
    return any((own := each.connection) and session_state.is_marked(own) for each in list(opened))


def close_changed_connections() -> None:
    """Close the connections whose session was changed, or left without autocommit. Never raises."""
    forget_queries()
    _close_each(_close_if_changed)


def close_idle_connections() -> None:
    """Close the connections that are kept only while there is work. Never raises."""
    _close_each(lambda wrapper: wrapper.close() if _is_kept(wrapper) else None)


def are_any_in_transaction(opened: Iterable[BaseDatabaseWrapper]) -> bool:
    """Return whether any connection is in a transaction, COPY or pipeline.

    Any thread may ask: of a connection in use the answer may be True without one being left open,
    but never False where one is.
    """
    return any(map(_is_in_transaction, list(opened)))


def with_transaction() -> list[BaseDatabaseWrapper]:
    """Return the connections of this thread that have a transaction, or begin one as they go on."""
    return [each for each in _opened.here if _is_in_transaction(each) or _is_manual(each)]


def roll_back_open(*, around: Sequence[BaseDatabaseWrapper] = ()) -> list[str]:
    """Close the connections of this thread with an open transaction, COPY or pipeline.

    The server rolls back then. Never raises.

    Args:
        around: connections whose transaction is the caller's. One is closed only if it was left in
            COPY or pipeline mode, where the caller can't go on.

    Returns:
        The aliases of what was closed.
    """
    left = []
    for wrapper in _opened.here:
        is_callers = wrapper in around if around else False
        if (_is_busy if is_callers else _is_in_transaction)(wrapper):
            left.append(wrapper.alias)
            _close_safely(_cut if is_callers else _leave, wrapper)
    return left


def close_old_connections(*, was_idle: bool = False) -> None:
    """Close the connections that the next task must not have. Never raises.

    Those are connections that broke, are too old, are in a transaction, or whose session was
    changed. Django does nearly the same after a request. But Django looks for a thread's
    connections each time, which takes as long as the smallest tasks, most of which have none.

    Args:
        was_idle: whether they were unused for a while, so that CONN_HEALTH_CHECKS is worth a query.
    """
    if _opened.here:
        forget_queries()
        _close_each(_close_if_obsolete if was_idle else _close_if_old)


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


def forget_queries(opened: Iterable[BaseDatabaseWrapper] | None = None) -> None:
    """Empty `connection.queries`, which Django fills under DEBUG, and empties for each request.

    Args:
        opened: the connections; None: the connections of this thread.
    """
    for wrapper in list(_opened.here if opened is None else opened):
        if not wrapper.force_debug_cursor:  # as where a test counts queries
            wrapper.queries_log.clear()


def replace_connections() -> None:
    """Have Django make new connections, and new objects for them, in this thread. Never raises.

    The objects may hold the name of a tenant. Connections in a transaction stay.
    """
    _close_each(lambda wrapper: None if wrapper.in_atomic_block else _replace(wrapper))


def _replace(wrapper: BaseDatabaseWrapper) -> None:
    _cut(wrapper)
    wrapper.close()
    if connections[wrapper.alias] is wrapper:
        del connections[wrapper.alias]


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


def _is_manual(wrapper: BaseDatabaseWrapper) -> bool:
    """Return whether code, and not DATABASES, has switched autocommit off."""
    is_off = wrapper.connection is not None and not wrapper.autocommit
    return is_off and bool(wrapper.settings_dict["AUTOCOMMIT"])


def _is_busy(wrapper: BaseDatabaseWrapper) -> bool:
    """Return whether the connection is in COPY or pipeline mode, and takes no other statement."""
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql":
        return False
    is_active: bool = own.pgconn.transaction_status == TransactionStatus.ACTIVE
    return is_active or bool(own.pgconn.pipeline_status)


def _close_if_old(wrapper: BaseDatabaseWrapper) -> None:
    is_checked = wrapper.health_check_done  # type: ignore[attr-defined]
    _close_if_obsolete(wrapper)
    wrapper.health_check_done = is_checked  # type: ignore[attr-defined]


def _close_if_obsolete(wrapper: BaseDatabaseWrapper) -> None:
    if _is_in_transaction(wrapper):
        _leave(wrapper)
    _close_if_changed(wrapper)
    wrapper.close_if_unusable_or_obsolete()


def _close_if_changed(wrapper: BaseDatabaseWrapper) -> None:
    own = wrapper.connection
    if own is None or wrapper.vendor != "postgresql" or wrapper.in_atomic_block:
        return
    if _is_manual(wrapper) or not _has_own_path(own) or session_state.has_changed(own):
        _cut(wrapper)
        wrapper.close()


def _has_own_path(own: psycopg.Connection[Any]) -> bool:
    """Reset the search_path that a tenant has set; return whether that succeeded."""
    try:
        session_state.reset_path(own)
    except psycopg.Error:
        return False
    return True


def _leave(wrapper: BaseDatabaseWrapper) -> None:
    """Close a connection that is still in a transaction though nothing uses it any more.

    The task has left it open, or a timeout arrived while Django was leaving it. Django would not
    connect again, and each later task of this thread would fail, or be rolled back in the end.
    """
    logger.warning("A transaction on %s was left open: it is rolled back", wrapper.alias)
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
