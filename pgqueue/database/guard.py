"""Call the user's code: tasks, handlers of groups, hooks and receivers all go through here.

The user's code may leave its thread in a state that loses somebody's work in silence. A transaction
that it left open is committed by nobody. A transaction that it ended protects its caller no more.
Context variables that it set are another tenant's in the next call. So a call that leaves a
transaction open, or ends its caller's, has failed; and each call has a context of its own.

Only the client's state of the connections of this thread is looked at: that costs less than a
microsecond, and the server is asked nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from decimal import DefaultContext, setcontext
from threading import get_ident
from typing import Any, NamedTuple, ParamSpec, TypeVar

import psycopg
from django.core.cache import caches
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from pgqueue.database import django_connections, forking, session_state
from pgqueue.exceptions import Defer, PGQueueError, TransactionLeftOpen

P = ParamSpec("P")
T = TypeVar("T")

_prepared: ContextVar[int] = ContextVar("prepared", default=0)
"""The thread whose caches are in this context."""


class TransactionLost(PGQueueError, TransactionManagementError):
    """Foreign code ended a transaction that was open around it: nothing in it will be committed.

    Args:
        alias: the database, as DATABASES names it.
    """

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"The transaction on {alias!r} was ended by code that runs inside it: an atomic task "
            "or handler, or a receiver of a signal, must not commit, roll back or close its "
            "connection."
        )


class _OpenTransaction(NamedTuple):
    """A transaction that is open around the user's code."""

    wrapper: BaseDatabaseWrapper
    session: Any
    kept: session_state.Kept | None


def call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the user's code; return its result once its transactions are as they were.

    A child that the function has forked ends here.

    Raises:
        TransactionLeftOpen: it left a transaction, COPY or pipeline open; that is rolled back.
        TransactionLost: it ended a transaction that was open around it.
    """
    began = forking.generation
    open_now = django_connections.with_transaction()
    around = [_open(each) for each in open_now] if open_now else []
    try:
        returned = function(*args, **kwargs)
    except BaseException as error:
        forking.leave_if_forked_since(began)
        # Here, because the callers don't see a Defer, or what an atomic task raised.
        left = _left(around)
        _check_kept(around, quietly=not isinstance(error, Defer))
        django_connections.close_after(error)
        if left and isinstance(error, Defer):
            raise TransactionLeftOpen(left) from error
        raise
    forking.leave_if_forked_since(began)
    if left := _left(around):
        raise TransactionLeftOpen(left)
    if around:
        _check_kept(around)
    return returned


def context() -> Context:
    """Return a copy of this thread's context for one call of the user's code.

    The call's changes are gone afterwards: those of context variables, of Django's and asgiref's
    `Local` (the language, the time zone, the URLconf), and of the context of decimals.
    """
    if _prepared.get() != get_ident():
        _prepare()
    made = copy_context()
    # A copy of a context has the same object, which is changed in place.
    made.run(setcontext, DefaultContext)
    return made


def isolated(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that calls the user's code in a context of its own."""
    return context().run(function, *args, **kwargs)


def _prepare() -> None:
    """Make Django's caches now: each context would have its own, with connections of its own."""
    _prepared.set(get_ident())
    for alias in caches:
        with suppress(Exception):  # who needs it is told
            caches[alias]


def _open(wrapper: BaseDatabaseWrapper) -> _OpenTransaction:
    own = wrapper.connection
    kept = session_state.keep(own) if isinstance(own, psycopg.Connection) else None
    return _OpenTransaction(wrapper, own, kept)


def _left(around: list[_OpenTransaction]) -> list[str]:
    if not around:  # as nearly always
        return django_connections.roll_back_open()
    return django_connections.roll_back_open(around=[each.wrapper for each in around])


def _check_kept(around: list[_OpenTransaction], *, quietly: bool = False) -> None:
    lost = [each.wrapper.alias for each in around if _is_lost(each)]
    if lost and not quietly:
        raise TransactionLost(lost[0])


def _is_lost(each: _OpenTransaction) -> bool:
    has_ended = each.kept.leave() if each.kept else False
    is_another = each.wrapper.connection is not each.session
    return has_ended or (is_another and each.session is not None)
