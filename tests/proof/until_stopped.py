"""Do something again and again, until SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def at_a_rate(rate: float, do: Callable[[], int]) -> None:
    """Call a function until told to stop, so that its returned counts come at a rate a second."""
    from django.db import close_old_connections

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    while not stopped.is_set():
        close_old_connections()
        stopped.wait(do() / rate)
