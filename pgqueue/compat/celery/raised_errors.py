"""The errors of results, as instances of the classes that tasks have raised."""

from __future__ import annotations

from ast import literal_eval
from contextlib import suppress
from typing import Any

from pgqueue.exceptions import TaskFailed
from pgqueue.tasks import TaskError
from pgqueue.values.discovery import imported

HEAP_TYPE = 1 << 9
"""The type flag of a class that Python code defines."""


def as_raised(error: TaskError) -> BaseException:
    """Return an error like the raised one, of the same class if this process knows the class.

    No code of the class runs and no module is imported, since the class's name comes from a table.
    """
    kind = imported(error.exception_class_path)
    if isinstance(kind, type) and issubclass(kind, Exception):
        message: Any = error.message
        if issubclass(kind, KeyError):  # its text is the repr of its key
            with suppress(ValueError, SyntaxError):
                message = literal_eval(message)
        with suppress(Exception):  # its text needs attributes that its __init__ sets
            made = _made(kind, message)
            str(made), repr(made)
            return made
    return TaskFailed(f"{error.exception_class_path}: {error.message}")


def _made(kind: type[Exception], message: Any) -> Exception:
    """Return an error of a class with this text, without running the class's own code.

    The nearest built-in base class provides `__new__`, because an OSError has fields of its own.
    """
    native: Any = next(each for each in kind.__mro__ if not each.__flags__ & HEAP_TYPE)
    if issubclass(kind, BaseExceptionGroup):
        return native.__new__(kind, message, [TaskFailed("Its errors are not kept.")])  # type: ignore[no-any-return]
    if issubclass(kind, UnicodeError):  # its text comes from fields, which are not kept
        told = {"__module__": kind.__module__, "__str__": lambda self: message}
        kind = type(kind.__name__, (kind,), told)
    made: Exception = native.__new__(kind, message)
    made.args = (message,)
    if isinstance(message, str) and message.startswith("(") and kind.__str__ is native.__str__:
        with suppress(ValueError, SyntaxError):  # the text of several arguments is a tuple's text
            several = literal_eval(message)
            made.args = several if isinstance(several, tuple) else made.args
    if isinstance(made, SyntaxError):
        made.msg = message
    return made
