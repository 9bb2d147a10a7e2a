"""Wake a waiting thread from any other thread, or from a signal handler."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from threading import Lock
from typing import Protocol

# poll() needs no file descriptor of its own: a process that has none left can still wait.
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class HasFileno(Protocol):
    """A socket, a pipe or a connection of psycopg's."""

    def fileno(self) -> int:
        """Return its file descriptor."""


class Nudge:
    """Ends the wait of one thread that waits for nothing else, as `threading.Event` does.

    The timeout of a task may interrupt its thread anywhere in Python code. In the midst of
    `Event.set()` it would leave the event locked for ever. Nothing interrupts the release of a
    plain lock.
    """

    def __init__(self) -> None:
        self._unset = Lock()
        self._unset.acquire()

    def set(self) -> None:
        """End the wait, or the next one if the thread does not wait now."""
        if self._unset.locked():
            with suppress(RuntimeError):  # another thread has set it
                self._unset.release()

    def wait(self, timeout: float) -> None:
        """Wait until it is set, and clear it; or until the time is over.

        Args:
            timeout: in seconds.
        """
        self._unset.acquire(timeout=max(0.0, timeout))

    def clear(self) -> None:
        """Forget that it was set."""
        self._unset.acquire(blocking=False)

    def is_set(self) -> bool:
        """Return whether the next wait will end at once."""
        return not self._unset.locked()


class Wakeup:
    """Ends the wait of one thread; that thread may wait for file descriptors at the same time.

    It is a pair of sockets. A lock or a condition would not do: a signal handler runs in the main
    thread, which may hold any lock at that moment, and select() can't wait for one.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def set(self) -> None:
        """End the wait, or the next one if no thread waits now.

        Any thread and any signal handler may call it: it takes no lock and never waits. After
        `close()` it does nothing.
        """
        with suppress(OSError):  # closed; or the buffer is full, so it is set already
            self._writer.send(b".")

    def wait(self, timeout: float, *others: HasFileno | int) -> list[object]:
        """Wait until it is set, until one of the others is readable, or until the time is over.

        Args:
            timeout: in seconds.
            others: file descriptors, or objects that have one.

        Returns:
            The readable ones of `others`, and this wake-up if it was set. It is cleared then:
            what is set from now on ends the next wait.
        """
        with Selector() as selector:
            for each in (self, *others):
                selector.register(each, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(timeout)]
        if self in ready:
            with suppress(BlockingIOError):
                self._reader.recv(4096)
        return ready

    @property
    def is_set(self) -> bool:
        """Whether the next wait will end at once."""
        try:
            return bool(self._reader.recv(1, socket.MSG_PEEK))
        except OSError:  # there is nothing to read, or it is closed
            return False

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when it is set."""
        return self._reader.fileno()

    def close(self) -> None:
        """Close its sockets; it must not be waited for again."""
        self._reader.close()
        self._writer.close()
