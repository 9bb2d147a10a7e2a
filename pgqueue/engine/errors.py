"""The causes of errors, and how errors are stored with a message."""

from __future__ import annotations

import json
import traceback

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
    """Return an error as the JSON that is kept with the message, storable whatever it says."""
    kind = type(error)
    text = "".join(traceback.format_exception(error))
    return json.dumps(
        {
            "attempt": attempt,
            "worker": worker,
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "message": _storable(_message(error))[:TRACEBACK_LIMIT],
            "traceback": _storable(text)[-TRACEBACK_LIMIT:],
        }
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:
        return f"(its text can't be had: {type(second).__name__})"


def _storable(text: str) -> str:
    # PostgreSQL's jsonb takes neither NUL nor half a surrogate pair.
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
