"""Hear, on the connection that one claims on, that there may be something to claim."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Collection
from contextlib import suppress

from psycopg import Notify, OperationalError

from pgqueue.connections import is_pooled
from pgqueue.engine import notifications
from pgqueue.engine.values import Connection


class Ear:
    """Waits for what is notified of some channels, and can be woken by any thread.

    Args:
        channels: None: all.
    """

    def __init__(self, channels: Collection[str] | None) -> None:
        self._channels = channels
        self._listening: Connection | None = None
        self._has_heard = False
        self._bell, self._rope = socket.socketpair()
        self._rope.setblocking(False)

    def listen(self, connection: Connection) -> bool:
        """Hear what is notified from now on; return False where that can't be heard."""
        if is_pooled(connection):
            return False
        if connection is not self._listening:
            # As a handler, since most arrive with the answers to claims.
            connection.add_notify_handler(self._hear)
            notifications.listen(connection)
            self._listening = connection
        return True

    def wait(self, connection: Connection, nap: float) -> None:
        """Return after `nap` seconds; or earlier, once there is news since the last wait."""
        until = time.monotonic() + nap
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(connection.fileno(), selectors.EVENT_READ)
            while not self._has_heard and (left := until - time.monotonic()) > 0:
                ready = {key.fileobj for key, _ in selector.select(left)}
                if self._bell in ready:
                    return
                if ready:
                    self._read(connection)
        self._has_heard = False

    def wake(self) -> None:
        """End the wait, and every one after it. Takes no lock: a signal handler may call it."""
        with suppress(OSError):  # closed, or full: it was woken already
            self._rope.send(b".")

    def close(self) -> None:
        """Hear no more."""
        self._bell.close()
        self._rope.close()

    def _read(self, connection: Connection) -> None:
        try:
            connection.execute("SELECT 1")
        except OperationalError:
            # The next claim, on another connection, tells whether that is all.
            self._has_heard = True

    def _hear(self, notification: Notify) -> None:
        channel = notification.payload
        if channel and (self._channels is None or channel in self._channels):
            self._has_heard = True
