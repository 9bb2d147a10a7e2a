"""Control characters of texts that others wrote: escaped where they are logged, and where printed.

The name of a task, a key, or the text of an error may come from anybody who may insert a message. A
line break in it would begin another line of the log, and ESC would be a command to the terminal.
"""

from __future__ import annotations

import logging
import re
import sys
from traceback import TracebackException
from typing import Any

_BREAKS = "\n\t"
_UNSAFE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb"
"""C0, C1, the separators of lines and paragraphs, and marks that change the direction of text."""
_ON_ONE_LINE = re.compile(f"[{_UNSAFE}{_BREAKS}]")
_IN_LINES = re.compile(f"[{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
NAMES = ("message_id", "task", "channel", "key", "flow_id", "query")
"""What a record has beside its text, and a format may put into a line."""
INDENT = "    "


def on_one_line(text: str) -> str:
    """Return a text with each control character, and each line break, escaped as JSON has it."""
    return _ON_ONE_LINE.sub(_escaped, text)


def in_lines(text: str) -> str:
    """Return a text of several lines with each other control character escaped as JSON has it."""
    return _IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


class Lines(str):
    """A text whose line breaks are meant, such as a stack: it is logged in several lines."""

    __slots__ = ()


def logger_of(name: str) -> logging.Logger:
    """Return the logger of a module of ours, which escapes what records bring."""
    logger = logging.getLogger(name)
    if _ESCAPING not in logger.filters:
        logger.addFilter(_ESCAPING)
    return logger


class Escaping(logging.Filter):
    """Escapes control characters in the arguments, names and errors of records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, with its texts escaped."""
        if isinstance(record.msg, str):
            record.msg = in_lines(record.msg)
        if isinstance(record.args, dict):
            record.args = {name: _argument(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(_argument, record.args))
        for name in NAMES:
            if isinstance(value := getattr(record, name, None), str):
                setattr(record, name, on_one_line(value))
        if record.exc_info and not record.exc_text:
            record.exc_text = _trace(record.exc_info)
        return True


_ESCAPING = Escaping()


class _Shown:
    """An argument of a record whose text has control characters."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return on_one_line(str(self._value))

    def __repr__(self) -> str:
        return on_one_line(repr(self._value))


def _argument(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Lines):
        return in_lines(value)
    if isinstance(value, str):
        return on_one_line(value)
    return _Shown(value)


def _trace(exc_info: Any) -> str | None:
    """Return the text of a traceback, if its errors bring control characters; None: they don't.

    A line that an error brings begins with spaces: no line of the log does.
    """
    try:
        if exc_info is True:
            exc_info = sys.exc_info()
        error = exc_info if isinstance(exc_info, BaseException) else exc_info[1]
        if error is None:
            return None
        trace = error.__traceback__ if exc_info is error else exc_info[2]
        formatted = TracebackException(type(error), error, trace)
        changed = [_indent(each) for each in _each(formatted)]
        if not any(changed):
            return None
        return "".join(formatted.format()).rstrip("\n")
    except Exception:  # its text is not available
        return None


def _each(formatted: TracebackException) -> list[TracebackException]:
    """Return an error with its causes, contexts and members of groups."""
    found, ahead = [], [formatted]
    while ahead:
        each = ahead.pop()
        found.append(each)
        more = [each.__cause__, each.__context__, *(each.exceptions or ())]
        ahead += [other for other in more if other is not None]
    return found


def _indent(each: TracebackException) -> bool:
    """Escape what an error says; return whether there was anything to escape."""
    texts: list[Any] = [getattr(each, "_str", ""), *(getattr(each, "__notes__", None) or ())]
    if not any(isinstance(text, str) and _ON_ONE_LINE.search(text) for text in texts):
        return False
    each._str = _below(str(texts[0]))  # type: ignore[attr-defined]
    if notes := getattr(each, "__notes__", None):
        each.__notes__ = [_below(str(note)) for note in notes]
    return True


def _below(text: str) -> str:
    return in_lines(text).replace("\n", f"\n{INDENT}")
