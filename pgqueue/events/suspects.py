"""Events that may end the process of their reader: each is handled while no other one is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 60.0
"""Seconds to wait for a suspected event of another group. An event that takes longer is an unlikely
cause."""
LOOK = 0.1

_suspected = threading.Lock()
"""A lock, held by the reader that handles an event which may end this process."""


@contextmanager
def alone(stopping: threading.Event) -> Iterator[bool]:
    """Keep suspected events of other groups from running in this process during the block.

    Yields:
        False: the reader must stop instead.
    """
    until = monotonic() + PATIENCE
    is_alone = False
    while not stopping.is_set() and monotonic() < until and not is_alone:
        is_alone = _suspected.acquire(timeout=LOOK)
    try:
        yield not stopping.is_set()
    finally:
        if is_alone:
            _suspected.release()
