"""How errors are stored with a message."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from psycopg.errors import DeadlockDetected, SerializationFailure

from pgqueue.conf import settings
from pgqueue.values import tracebacks
from pgqueue.values.causes import is_caused_by

TRACEBACK_LIMIT = 16 * 1024
RERUNS = 10
"""How often a transaction of a task, or of a handler of a group, runs again after conflicts."""
LONGEST_PAUSE = 0.05
"""Seconds between these runs."""
TEXTS = ("worker", "class", "message", "traceback", "at", "release")


def is_conflict(error: BaseException | None) -> bool:
    """Say whether others were in the way of a transaction, so that it should run again.

    Also where the task raised something else over it. But what a task asks for by an EndOfRun,
    it gets.
    """
    return isinstance(error, Exception) and is_caused_by(
        error, SerializationFailure, DeadlockDetected
    )


def pause() -> float:
    """Return how long to wait after a conflict: at random, or both sides meet again."""
    return random.uniform(0, LONGEST_PAUSE)  # noqa: S311


def describe(error: BaseException, *, attempt: int, worker: str, parent: int | None = None) -> str:
    """Return an error as the JSON that is kept with the message.

    Its traceback begins at the user's own frame, if there is one (see `tracebacks`).

    Never raises because of the error: where its class, its text or its traceback can't be
    formatted, whatever that raises (even SystemExit), the entry says so in their place.

    Args:
        parent: the message before it in its flow whose failure this error passes on.
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
        # A worker's row is gone a day after the worker: the error has to say it itself.
        entry["release"] = release
    if parent is not None:
        entry["parent"] = parent
    return json.dumps(entry)


def entries(stored: Any) -> list[dict[str, Any]]:
    """Return the errors of a message in the form that `describe` gives them, whatever was stored.

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
    """Return the text that a function of the user forms, in a way that can be stored."""
    try:
        return _storable(form())
    except BaseException as second:
        return f"(its text can't be had: {type(second).__name__})"


def _storable(text: str) -> str:
    # PostgreSQL's jsonb takes neither NUL nor half a surrogate pair.
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
