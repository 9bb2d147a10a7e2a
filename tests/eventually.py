"""Wait for a fact, never for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(fact: Callable[[], T], *, within: float = 20, what: str = "") -> T:
    """Return what `fact` returns as soon as it is true."""
    until = time.monotonic() + within
    while not (value := fact()):
        assert time.monotonic() < until, f"not within {within} s: {what or fact}"
        time.sleep(0.01)
    return value
