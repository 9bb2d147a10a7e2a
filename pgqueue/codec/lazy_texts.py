"""Django's lazy texts, which `gettext_lazy` returns. Nothing here imports Django."""

from __future__ import annotations

import sys
from typing import Any

from pgqueue.codec.scalars import Unstorable


def evaluated(value: Any) -> Any:
    """Return a lazy text as text, in the language that is active now; another value as it is.

    Raises:
        Unstorable: it is lazy, but no text.
    """
    promise = getattr(sys.modules.get("django.utils.functional"), "Promise", None)
    if promise is None or not isinstance(value, promise):
        return value
    if not _is_text(value):
        raise Unstorable(
            "is lazy, and no text yet: pass its value, such as int(value) or text % number."
        )
    try:
        return str(value)
    except Exception as error:  # of the function that it waits to call
        kind = type(error).__name__
        raise Unstorable(f"is a lazy text that can't be evaluated: {kind}: {error}") from error


def _is_text(value: Any) -> bool:
    # Its pickle has the function, its arguments, and the classes that the function may return. A
    # text without its number pickles otherwise.
    _, parts, *_ = value.__reduce__()
    classes = parts[3:]
    return bool(classes) and all(isinstance(cls, type) and issubclass(cls, str) for cls in classes)
