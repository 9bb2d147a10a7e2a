"""Errors that are shown in place of others: without redacted values, also in their frames."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, FunctionType, TracebackType
from typing import Any

from pgqueue.redaction import MASK, Hidden, Redactor
from pgqueue.values.error_words import text_of


def stand_in(error: BaseException, hidden: Hidden) -> BaseException:
    """Return an error that is shown as this one is, without the values; itself, if there are none.

    So it can be logged and stored, and is not changed. Its frames are stand-ins, too: an error
    tracker reads their local variables. Never raises because of the error.
    """
    if not hidden and hidden.keeps_locals:
        return error
    try:
        return _StandIns(hidden).of(error)
    except BaseException:
        return _alike(error, MASK)


class _StandIns:
    """Makes them of an error, its causes, contexts and members."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._made: dict[int, BaseException] = {}

    def of(self, error: BaseException) -> BaseException:
        if id(error) in self._made:
            return self._made[id(error)]
        if isinstance(error, BaseExceptionGroup):
            made = _alike(
                error, self._hidden.shown(error.message), list(map(self.of, error.exceptions))
            )
        else:
            made = _alike(error, self._hidden.said(error))
        made.__traceback__ = self._trace(error.__traceback__)
        self._made[id(error)] = made
        for note in getattr(error, "__notes__", ()):
            made.add_note(self._hidden.shown(str(note)))
        if error.__cause__ is not None:
            made.__cause__ = self.of(error.__cause__)
        if error.__context__ is not None:
            made.__context__ = self.of(error.__context__)
        made.__suppress_context__ = error.__suppress_context__
        return made

    def _trace(self, trace: TracebackType | None) -> TracebackType | None:
        """Return a traceback of the same functions and lines, with other local variables."""
        found = []
        while trace is not None:
            found.append(trace)
            trace = trace.tb_next
        made: TracebackType | None = None
        for each in reversed(found):
            frame = _stand_in_frame(each.tb_frame, self._locals(each.tb_frame))
            made = TracebackType(made, frame, -1, each.tb_lineno)
        return made

    def _locals(self, frame: FrameType) -> dict[str, Any]:
        if not self._hidden.keeps_locals:
            return {}
        return {
            name: MASK if _BY_DEFAULT.is_field(name) else _Local(value, self._hidden)
            for name, value in frame.f_locals.items()
        }


_BY_DEFAULT = Redactor()


class _Local:
    """A local variable, as an error tracker shows it: what is hidden is looked for only then."""

    def __init__(self, value: object, hidden: Hidden) -> None:
        self._value, self._hidden = value, hidden

    def __repr__(self) -> str:
        return text_of(lambda: self._hidden(repr(self._value)))


def _stand_in_frame(frame: FrameType, variables: dict[str, Any]) -> FrameType:
    """Return a frame of a function with the same name, file and module, and these variables.

    Python makes frames only by calls: this calls a function that returns its own frame.
    """
    code, count = frame.f_code, len(variables)
    alike = _frame.__code__.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_argcount=count,
        co_nlocals=count,
        co_varnames=tuple(variables),
    )
    names = {"__name__": frame.f_globals.get("__name__"), "_own": sys._getframe}
    made: FrameType = FunctionType(alike, names)(*variables.values())
    return made


def _frame() -> FrameType:
    return _own()  # type: ignore[name-defined,no-any-return]  # noqa: F821


def _alike(error: BaseException, text: str, members: Sequence[BaseException] = ()) -> BaseException:
    """Return an error of a class of the same name, with another text."""
    kind = type(error)
    named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if members:
        made: BaseException = type(kind.__name__, (BaseExceptionGroup,), named)(text, members)
    else:
        made = type(kind.__name__, (Exception,), named)(text)
    return made
