"""What the processes of a worker and their supervisor tell each other, and the child's end of it.

Django is not imported here: a new process has not set it up yet.
"""

from __future__ import annotations

import selectors
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Protocol

REQUEST = b"stop"
"""The supervisor's only message: a request to stop."""
WELL = b"well"
"""A child's message: no service in it is stuck. It is sent every second. A stuck child sends its
report, too: this message alone says that it is well."""
RETIRING = b"retiring"
"""A child's message: it claims no more; start another process in its place."""
STOPPED = b"stopped"
"""A child's last message: it has no leases any more."""
LEFT = b"left"
"""The message of a child that has drained the queue but for rows that statements fail with."""
REPORT = b"report "
"""What a child's report of itself begins with (`worker/report`)."""
RUNS = b"runs "
"""What a child's counts of a task's runs begin with."""


class Superior(Protocol):
    """Who may ask a worker to stop: its process's parent, or the driver of its cluster."""

    @property
    def requests(self) -> int:
        """How often it has asked until now."""

    @property
    def is_gone(self) -> bool:
        """Whether it asks no more."""

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable with a request."""

    def listen(self) -> None:
        """Count requests to stop."""

    def say(self, message: bytes) -> bool:
        """Send one of the messages above, if it wants to know; return whether it was sent."""


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
        """Count requests to stop. A parent that is gone counts as one."""
        try:
            while self._pipe.poll():
                self._pipe.recv_bytes()
                self.requests += 1
        except (EOFError, OSError):
            self.is_gone = True
            self.requests = max(self.requests, 1)

    def say(self, message: bytes) -> bool:
        """Send one of the messages above; drop it if the pipe is full or the parent is gone.

        Any thread may.
        """
        with suppress(OSError), self._saying, selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_WRITE)
            if selector.select(0):
                self._pipe.send_bytes(message)
                return True
        return False
