"""Where the live view has its data from: one connection, in a thread of its own."""

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
"""The statement_timeout: a view of each second needs no answer that takes longer."""
PATIENCE = 2.0
"""Seconds that the last statement has to end. Behind a silent network it may never."""


class SnapshotSource:
    """Asks the database, one question after the other.

    An error leaves no broken connection behind: the next question opens another one.

    Args:
        alias: the database.
        window: how far back runs are counted.
    """

    def __init__(self, alias: str, window: str) -> None:
        self.alias = alias
        self._window = window
        self._connection: Any = None
        self._questions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Django's connections belong to threads: one thread has one. A daemon: see PATIENCE.
        self._thread = Thread(target=self._answer, name="pgqueue-watch", daemon=True)
        self._thread.start()

    def look(self) -> Future[WatchSnapshot]:
        """Look at the queue."""
        return self.ask(lambda: snapshot.look(self.alias, self._window))

    def story(self, id: int) -> Future[Mapping[str, Any] | None]:
        """Return what is known of a message."""
        return self.ask(lambda: story(self.alias, id))

    def turn(self, channel: str, *, is_paused: bool) -> Future[bool]:
        """Resume a channel that is paused, or else pause it."""
        it = Channel(channel, database=self.alias)
        return self.ask(it.resume if is_paused else it.pause)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Have the thread ask something."""
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
