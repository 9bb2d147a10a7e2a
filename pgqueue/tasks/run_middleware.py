"""Surround each run with context managers, for example with the span of a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Token, copy_context
from typing import Any

from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.current import CurrentRun, running
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

Around = Callable[[TaskContext], AbstractContextManager[Any]]

_registered: list[Around] = []


def around_runs(manager: Around) -> Around:
    """Surround each run in this process with a context manager.

    The manager that was registered first is the outermost.

    The manager is entered where the function is called: in its thread, or inside its coroutine. So
    the function sees the context variables that the manager sets. The manager sees the error that
    the function raises, but cannot suppress it. An error of the manager itself is logged, and does
    not affect the run.

    Args:
        manager: takes the context of the run, and returns a context manager. Usable as a decorator.
    """
    _registered.append(manager)
    return manager


def remove(manager: Around) -> None:
    """Remove a context manager that was registered."""
    _registered.remove(manager)


def around(context: TaskContext) -> AbstractContextManager[None]:
    """Return a context manager that enters all registered managers."""
    return _nested(context) if _registered else _Running(context)


class _Running:
    """Sets the current run. A generator-based manager would cost three times as much."""

    __slots__ = ("_context", "_token")

    _token: Token[CurrentRun | None]

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.raised_in = None
        self._token = running.set(self._context)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._context.raised_in is None:
            self._context.raised_in = copy_context()
        running.reset(self._token)


@contextmanager
def _nested(context: TaskContext) -> Iterator[None]:
    with _Running(context), _all_entered(context):
        yield


@contextmanager
def _all_entered(context: TaskContext) -> Iterator[None]:
    entered = [each for manager in _registered if (each := _enter(manager, context))]
    try:
        yield
    except BaseException:
        context.raised_in = copy_context()
        raise
    finally:
        raised = sys.exc_info()
        for each in reversed(entered):
            _exit(each, raised)


def _enter(manager: Around, context: TaskContext) -> AbstractContextManager[Any] | None:
    try:
        entered = manager(context)
        entered.__enter__()
    except Exception:
        logger.exception("A context manager around a run failed: %r", manager)
        return None
    return entered


def _exit(entered: AbstractContextManager[Any], raised: Any) -> None:
    try:
        entered.__exit__(*raised)
    except BaseException as error:
        if error is not raised[1]:  # a generator's context manager raises it again
            logger.exception("A context manager around a run failed: %r", entered)
