"""The messages between a worker's processes and their supervisor, and the child's end of the pipe.

Django is not imported here: a new process has not set it up yet.
"""

from __future__ import annotations

import selectors
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Protocol

from pgqueue.threads.wakeup import Selector

REQUEST = b"stop"
"""The supervisor's only message: a request to stop."""
WELL = b"well"
"""A child's message, sent every second: none of its services is stuck."""
RETIRING = b"retiring"
"""A child's message: it claims no more; start another process in its place."""
STOPPED = b"stopped"
"""A child's last message: it has no leases any more."""
LEFT = b"left"
"""A child's message: it has drained the queue except rows that make statements fail."""
REPORT = b"report "
"""The prefix of a child's report (`worker/report`)."""
RUNS = b"runs "
"""The prefix of a child's counts of a task's runs."""


class Superior(Protocol):
    """The parent of a worker's process, or the driver of its cluster. It may request a stop."""

    @property
    def requests(self) -> int:
        """The number of its requests to stop so far."""

    @property
    def is_gone(self) -> bool:
        """Whether it is gone, and sends no further requests."""

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable with a request."""

    def listen(self) -> None:
        """Count requests to stop."""

    def say(self, message: bytes) -> bool:
        """Send one of the messages above, if it accepts them; return whether it was sent."""


class SupervisorPipe:
    """The supervisor as its child sees it: a pipe, which also shows that the supervisor lives."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._saying = threading.Lock()
        self.requests = 0
        self.is_gone = False

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable with a request, or if it is gone."""
        return self._pipe.fileno()

    def listen(self) -> None:
        """Count requests to stop. A parent that is gone counts as one request."""
        try:
            while self._pipe.poll():
                self._pipe.recv_bytes()
                self.requests += 1
        except (EOFError, OSError):
            self.is_gone = True
            self.requests = max(self.requests, 1)

    def say(self, message: bytes) -> bool:
        """Send one of the messages above; drop it if the pipe is full or the parent is gone.

        Any thread may call this.
        """
        with suppress(OSError), self._saying, Selector() as selector:
            selector.register(self._pipe, selectors.EVENT_WRITE)
            if selector.select(0):
                self._pipe.send_bytes(message)
                return True
        return False
