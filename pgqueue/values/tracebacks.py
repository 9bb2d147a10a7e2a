"""Tracebacks that begin at the user's own frame.

Between a worker and the user's code there are always the same frames of this package, of asyncio
and of asgiref. They say nothing about an error, and are shown at the log level DEBUG only. An
error that was raised before the user's code was reached keeps all its frames.

No exception is changed: receivers of signals get the whole traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import TracebackException
from types import CodeType, TracebackType
from typing import Any, TypeVar

from pgqueue.values.escaping import logger_of

F = TypeVar("F", bound=Callable[..., Any])

logger = logger_of("pgqueue")

_callers: set[tuple[str, str, int]] = set()


def calls_user_code(function: F) -> F:
    """Mark a function that calls the user's code: tracebacks begin at the frame after its own."""
    _callers.add(_place(function.__code__))
    return function


def shown(error: BaseException) -> TracebackType | None:
    """Return the part of the error's traceback that is shown."""
    trace = error.__traceback__
    for _ in range(_hidden(error)):
        trace = trace and trace.tb_next
    return trace


def text(error: BaseException) -> str:
    """Return the text of an error, with its causes, contexts and members of a group."""
    formatted = TracebackException.from_exception(error)
    pairs: list[tuple[TracebackException, BaseException]] = [(formatted, error)]
    while pairs:
        each, raised = pairs.pop()
        del each.stack[: _hidden(raised)]
        if each.__cause__ and raised.__cause__:
            pairs.append((each.__cause__, raised.__cause__))
        if each.__context__ and raised.__context__:
            pairs.append((each.__context__, raised.__context__))
        if isinstance(raised, BaseExceptionGroup):
            pairs.extend(zip(each.exceptions or (), raised.exceptions, strict=False))
    return "".join(formatted.format())


def _place(code: CodeType) -> tuple[str, str, int]:
    # Not the code itself: a frame of a redacted error has another one.
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _hidden(error: BaseException) -> int:
    """Return how many frames come before the user's first one; 0 if there is none of the user's."""
    if logger.isEnabledFor(logging.DEBUG):
        return 0
    trace, count = error.__traceback__, 0
    while trace is not None:
        count += 1
        if _place(trace.tb_frame.f_code) in _callers:
            return count if trace.tb_next else 0
        trace = trace.tb_next
    return 0
