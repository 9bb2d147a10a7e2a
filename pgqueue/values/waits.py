"""The waits of durable runs, in the words of lists and commands."""

from __future__ import annotations

from pgqueue.values.error_words import hint
from pgqueue.values.names import as_text

KINDS = ("sleep", "signal", "event", "call", "retry")
"""call: other messages; retry: the next try of a step."""
NAME_BYTES = 1000


def as_wait(text: str) -> str:
    """Return a text if it says what messages wait for: `sleep`, `signal`, or `signal:approved`.

    Raises:
        ValueError: it begins with no kind of a wait.
    """
    kind, colon, name = as_text(text, NAME_BYTES).partition(":")
    if kind not in KINDS:
        raise ValueError(f"{kind!r:.99} is no kind of a wait. {hint(kind, KINDS)}")
    if colon and not name:
        raise ValueError(f"{text!r:.99} has no name behind its colon.")
    return text
