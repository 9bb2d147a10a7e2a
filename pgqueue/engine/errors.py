"""The causes of errors, and how errors are stored with a message."""

from __future__ import annotations

import json
from collections.abc import Callable

from pgqueue import tracebacks
from pgqueue.conf import settings

TRACEBACK_LIMIT = 16 * 1024


def is_caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Return whether the error, or a cause or context of it, is one of these kinds."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, kinds):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def describe(error: BaseException, *, attempt: int, worker: str) -> str:
    """Return an error as the JSON that is kept with the message.

    Its traceback begins at the user's own frame, if there is one (see `tracebacks`).

    Never raises because of the error: where its class, its text or its traceback can't be
    formatted, whatever that raises (even SystemExit), the entry says so in their place.
    """
    kind = type(error)
    entry = {
        "attempt": attempt,
        "worker": worker,
        "class": _text(lambda: f"{kind.__module__}.{kind.__qualname__}"),
        "message": _text(lambda: str(error))[:TRACEBACK_LIMIT],
        "traceback": _text(lambda: tracebacks.text(error))[-TRACEBACK_LIMIT:],
    }
    if release := settings().release:
        # A worker's row is gone a day after the worker: the error has to say it itself.
        entry["release"] = release
    return json.dumps(entry)


def _text(form: Callable[[], str]) -> str:
    """Return the text that a function of the user forms, in a way that can be stored."""
    try:
        return _storable(form())
    except BaseException as second:
        return f"(its text can't be had: {type(second).__name__})"


def _storable(text: str) -> str:
    # PostgreSQL's jsonb takes neither NUL nor half a surrogate pair.
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
