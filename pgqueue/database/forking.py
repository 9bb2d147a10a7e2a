"""Keep a forked child from harming its parent.

A child of `os.fork()` begins as a copy of one thread: it has the database sessions of its parent,
its signal handlers, and the rest of that thread's work. All three harm the parent. A session
that the child closes ends in the server. A session that the child keeps open holds its locks after
the parent has died. A handler that only notes the request to stop keeps `Process.terminate()` from
ending the child. And a child that returns from a task would go on as a second worker thread.

So each child cuts our sessions off from their sockets, and replaces our handlers by the default
ones. The caller of the project's code ends the process when that code returns
(`leave_if_forked_since`).

Processes of another program (`subprocess`, `spawn`, `forkserver`) inherit none of this.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver

FLUSHING = 1.0
"""Seconds in which a child's output must be flushed."""
AWAITED = (
    "pgqueue: a process that was forked in a coroutine can't await: it has none of its parent's "
    "threads and tasks. It ends here. Use subprocess, or multiprocessing with 'spawn'."
)

generation = 0
"""How many forks lie between the first process and this one. It changes only in a child."""


class Inherited(Protocol):
    """A session or a socket."""

    def fileno(self) -> int:
        """Return its file descriptor."""


_sockets: WeakSet[Inherited] = WeakSet()
_django: WeakSet[BaseDatabaseWrapper] = WeakSet()
_handlers: dict[int, Any] = {}
_left_behind: list[object] = []
"""Objects whose end must not run in a child."""
_serves = False
_forking = threading.local()


def cut_in_children(inherited: Inherited) -> None:
    """Have each forked child lose this session or socket, without a word to the other end."""
    _sockets.add(inherited)


def serve() -> None:
    """Note that threads of ours call the project's code here, with Django's sessions."""
    global _serves
    _serves = True


def note_handler(number: int, handler: Any) -> Any:
    """Have each forked child replace this handler of a signal by the default one.

    Args:
        handler: None: our handler is gone.

    Returns:
        The handler that was noted before, if any.
    """
    earlier = _handlers.get(number)
    if handler is None:
        _handlers.pop(number, None)
    else:
        _handlers[number] = handler
    return earlier


def leave_if_forked_since(began: int) -> None:
    """End the process if it was forked since `generation` was `began`; never return in a child.

    It ends as a main module would: with 0 after a return, with 1 and a traceback after an error,
    with the status of a SystemExit. No `finally` of the parent runs, and no hook of `atexit`.
    """
    if generation != began:
        _leave(sys.exc_info()[1])


def _leave(error: BaseException | None) -> NoReturn:
    status = 0
    _exit_soon(1 if error else 0)
    with suppress(BaseException):
        status = _status_after(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(status)


def _status_after(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _exit_soon(status: int) -> None:
    """Exit in a moment though a stream's lock was another thread's at the fork."""
    with suppress(RuntimeError):
        timer = threading.Timer(FLUSHING, os._exit, [status])
        timer.daemon = True
        timer.start()


@receiver(connection_created, dispatch_uid="pgqueue.database.forking")
def _note(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    if connection.vendor == "postgresql":
        _django.add(connection)


def _before() -> None:
    # asyncio forgets it in the child.
    _forking.loop = _get_running_loop()
    # A signal that the child gets while it still has our handler would be lost: CPython forgets it,
    # and `Pool.terminate()` then waits for ever. The kernel keeps a blocked one for the child.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handlers) if _handlers else None


def _after_in_parent() -> None:
    _forking.loop = None
    _unblock()


def _unblock() -> None:
    mask, _forking.mask = getattr(_forking, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    global generation
    generation += 1
    _restore_handlers()
    _cut_sockets()
    loop, _forking.loop = getattr(_forking, "loop", None), None
    if loop is not None and _serves:
        _end_loop(loop)
    _unblock()


def _restore_handlers() -> None:
    """Give each signal its default handler in place of ours; leave the project's handlers."""
    for number, handler in _handlers.items():
        with suppress(ValueError, OSError):
            if signal.getsignal(number) == handler:
                default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                signal.signal(number, default)
    if _handlers:
        with suppress(ValueError):
            signal.set_wakeup_fd(-1)
    _handlers.clear()


def _cut_sockets() -> None:
    """Put /dev/null in the place of each socket that is the parent's.

    So a close sends nothing to the server, a query fails, and the server notices at once when the
    parent dies.
    """
    cut: list[Inherited] = list(_sockets)
    if _serves:
        cut += filter(None, map(_let_go, list(_django)))
    if not cut:
        return
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for each in cut:
            # A psycopg.Error: it was closed.
            with suppress(Exception):
                if (number := each.fileno()) >= 0:
                    os.dup2(nowhere, number, inheritable=False)
        os.close(nowhere)
    _sockets.clear()


def _let_go(wrapper: BaseDatabaseWrapper) -> Inherited | None:
    """Have Django open a new connection at the next use, outside of all transactions."""
    own, wrapper.connection = wrapper.connection, None
    wrapper.in_atomic_block = wrapper.closed_in_transaction = wrapper.needs_rollback = False
    wrapper.savepoint_ids, wrapper.run_on_commit = [], []
    _left_behind.append(own)
    # The threads that filled a pool are the parent's.
    pools = getattr(type(wrapper), "_connection_pools", None)
    if pools:
        _left_behind.append(dict(pools))
        pools.clear()
    inherited: Inherited | None = own
    return inherited


def _end_loop(loop: AbstractEventLoop) -> None:
    """End the child as it comes back to its parent's event loop, before any other task runs."""
    for handle in list(getattr(loop, "_ready", ())):
        handle.cancel()
    with suppress(Exception):
        loop.call_soon(_end_that_awaits)


def _end_that_awaits() -> None:
    print(AWAITED, file=sys.stderr)
    _exit_soon(1)
    with suppress(BaseException):
        sys.stderr.flush()
    os._exit(1)


def _register(**hooks: Callable[[], None]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


_register(before=_before, after_in_parent=_after_in_parent, after_in_child=_in_child)
