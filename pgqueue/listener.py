"""Hear notifications, and pass them on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from pgqueue.connections import Session
from pgqueue.service import NO_NAP, Service
from pgqueue.wakeup import Wakeup

# A connection that died half-open says nothing: ask it something now and then.
PROBE_EVERY = timedelta(seconds=10)


def _nothing(connection: psycopg.Connection[Any]) -> timedelta:
    return PROBE_EVERY


class Listener(Service):
    """Calls `heard` with the text of each notification, and with None when some may be missed.

    Args:
        session: a connection of its own; behind a transaction pooler it would be deaf.
        listen: issues the LISTEN.
        heard: must be quick, and must not raise.
        between: what else is to be done on the connection, between waiting for notifications;
            returns how long they may be waited for, before it is called again.
    """

    def __init__(
        self,
        session: Session,
        *,
        listen: Callable[[psycopg.Connection[Any]], None],
        heard: Callable[[str | None], None],
        between: Callable[[psycopg.Connection[Any]], timedelta] = _nothing,
    ) -> None:
        super().__init__()
        self._session = session
        self._listen = listen
        self._heard = heard
        self._between = between
        self._listening: psycopg.Connection[Any] | None = None
        self._wakeup = Wakeup()

    @property
    def is_listening(self) -> bool:
        """Whether it hears what is notified from now on."""
        return self._listening is not None and not self._listening.closed

    def tick(self) -> timedelta:
        """Wait for notifications, and pass them on."""
        connection = self._connection()
        patience = self._between(connection)
        # Some may have come with the answers to what was just asked: nothing announces those.
        if not self._pass_on(connection):
            ready = self._wakeup.wait(patience.total_seconds(), connection)
            if not ready and patience >= PROBE_EVERY:
                connection.execute("SELECT 1")
            self._pass_on(connection)
        return NO_NAP

    def _connection(self) -> psycopg.Connection[Any]:
        connection = self._session.connection
        if connection is not self._listening:
            self._listen(connection)
            self._listening = connection
            self._heard(None)
        return connection

    def _pass_on(self, connection: psycopg.Connection[Any]) -> bool:
        """Pass on what has come; say whether anything had."""
        came = list(connection.notifies(timeout=0))
        for notification in came:
            self._heard(notification.payload)
        return bool(came)

    def wake(self) -> None:
        """End the wait."""
        super().wake()
        self._wakeup.set()

    def finish(self) -> None:
        """Close what it listened on."""
        self._session.close()
        self._wakeup.close()
