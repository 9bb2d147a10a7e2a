"""The data source of the live view: one connection, in a separate thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from django.db import connections

from pgqueue.management import snapshot
from pgqueue.management.snapshot import WatchSnapshot
from pgqueue.management.story import story
from pgqueue.operating.channels import Channel

T = TypeVar("T")

LONGEST = "10s"
"""The statement_timeout: a view of each second needs no slower answer."""
PATIENCE = 2.0
"""The most seconds to wait for the last statement, which a silent network may never end."""


class SnapshotSource:
    """Reads the database, one request after the other.

    After an error the next request opens a new connection.

    Args:
        alias: the alias of the database.
        window: the period of the counted runs.
    """

    def __init__(self, alias: str, window: str) -> None:
        self.alias = alias
        self._window = window
        self._connection: Any = None
        self._questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Django's connections belong to threads, so one thread has one connection. The thread is a
        # daemon: see PATIENCE.
        self._thread = Thread(target=self._answer, name="pgqueue-watch", daemon=True)
        self._thread.start()

    def look(self) -> Future[WatchSnapshot]:
        """Return the state of the queue."""
        return self.ask(lambda: snapshot.look(self.alias, self._window))

    def story(self, id: int) -> Future[Mapping[str, Any] | None]:
        """Return the facts about a message."""
        return self.ask(lambda: story(self.alias, id))

    def turn(self, channel: str, *, is_paused: bool) -> Future[bool]:
        """Resume a paused channel, or pause another one."""
        it = Channel(channel, database=self.alias)
        return self.ask(it.resume if is_paused else it.pause)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Let the thread run a function; return the future of its result."""
        future: Future[T] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                self._set_up()
                future.set_result(question())
            except BaseException as error:
                connections[self.alias].close()
                future.set_exception(error)

        self._questions.put(answer)
        return future

    def close(self) -> None:
        """Close the connection, and end the thread."""
        self._questions.put(None)
        self._thread.join(PATIENCE)

    def _answer(self) -> None:
        while (answer := self._questions.get()) is not None:
            answer()
        connections[self.alias].close()

    def _set_up(self) -> None:
        wrapper = connections[self.alias]
        wrapper.ensure_connection()
        if wrapper.connection is not self._connection:
            with wrapper.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, false)", [LONGEST])
            self._connection = wrapper.connection
