"""The form in which errors are stored with a message."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from psycopg.errors import DeadlockDetected, SerializationFailure

from pgqueue.conf import settings
from pgqueue.values import tracebacks
from pgqueue.values.causes import is_caused_by
from pgqueue.values.error_words import text_of

TRACEBACK_LIMIT = 16 * 1024
RERUNS = 10
"""How often a transaction of a task, or of a handler of a group, runs again after conflicts."""
LONGEST_PAUSE = 0.05
"""Seconds between these runs."""
TEXTS = ("worker", "class", "message", "traceback", "at", "release")


def is_conflict(error: BaseException | None) -> bool:
    """Return whether a transaction failed by a conflict with others, so that it should run again.

    A conflict also counts if the task raised another error because of it. An EndOfRun does not
    count: the task gets the end that it asks for.
    """
    return isinstance(error, Exception) and is_caused_by(
        error, SerializationFailure, DeadlockDetected
    )


def pause() -> float:
    """Return a random time to wait after a conflict, so that the two sides do not meet again."""
    return random.uniform(0, LONGEST_PAUSE)  # noqa: S311


def describe(error: BaseException, *, attempt: int, worker: str, parent: int | None = None) -> str:
    """Return an error as the JSON that is kept with the message.

    Its traceback begins at the user's own frame, if there is one (see `tracebacks`).

    It never raises because of the error. Formatting its class, text or traceback may raise, even
    SystemExit; the entry then says so in their place.

    Args:
        parent: the parent in the flow whose failure this error passes on.
    """
    kind = type(error)
    entry: dict[str, Any] = {
        "attempt": attempt,
        "worker": worker,
        "class": _text(lambda: f"{kind.__module__}.{kind.__qualname__}"),
        "message": _text(lambda: str(error))[:TRACEBACK_LIMIT],
        "traceback": _text(lambda: tracebacks.text(error))[-TRACEBACK_LIMIT:],
    }
    if release := settings().release:
        # A worker's row is deleted a day after the worker's end. So the error names the release.
        entry["release"] = release
    if parent is not None:
        entry["parent"] = parent
    return json.dumps(entry)


def entries(stored: Any) -> list[dict[str, Any]]:
    """Return the errors of a message in the form of `describe`, for any stored value.

    Args:
        stored: the column's value, parsed or as JSON.
    """
    if isinstance(stored, str | bytes):
        try:
            stored = json.loads(stored)
        except (ValueError, RecursionError):
            return []
    if not isinstance(stored, list):
        return []
    return [_entry(each) for each in stored if isinstance(each, Mapping)]


def _entry(stored: Mapping[str, Any]) -> dict[str, Any]:
    attempt = stored.get("attempt")
    texts = {name: str(stored[name]) for name in TEXTS if stored.get(name) is not None}
    return {
        **stored,
        "attempt": attempt if isinstance(attempt, int) else 0,
        **dict.fromkeys(("worker", "class", "message", "traceback"), ""),
        **texts,
    }


def _text(form: Callable[[], str]) -> str:
    """Return the text that a function of the user forms, without unstorable characters."""
    return text_of(lambda: storable(form()))


def storable(text: str) -> str:
    """Return a text with escapes for the characters that are not storable."""
    # PostgreSQL's jsonb refuses NUL and half a surrogate pair.
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
