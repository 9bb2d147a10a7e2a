"""Sessions that take turns: one statement runs at a time, or waits for another session's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from tests.factories import Connection

PATIENCE = 0.003
"""Seconds that a statement may take before the server is asked whether it waits for a lock."""
LONGEST = 30.0
BLOCKED = """
SELECT pid FROM unnest(%s::int[]) AS p (pid) WHERE cardinality(pg_blocking_pids(pid)) > 0
"""


class SteppedSession:
    """A connection that asks for a turn before each statement.

    Attributes:
        is_here: whether it waits for its turn.
        is_over: whether its work has ended.
        is_blocked: whether its statement waits for a lock.
        error: the error that ended its work.
    """

    def __init__(self, number: int, connection: Connection) -> None:
        self.number = number
        self.connection = connection
        self.pid = connection.info.backend_pid
        self.is_here = self.is_blocked = False
        self.is_over = True
        self.error: BaseException | None = None
        self._go = threading.Semaphore(0)
        self._posts: SimpleQueue[SteppedSession] | None = None
        self._thread: threading.Thread | None = None
        wait = connection.wait

        def wait_in_turn(*given: Any, **options: Any) -> Any:
            self._ask()
            return wait(*given, **options)

        # psycopg sends each statement by this method, also BEGIN and COMMIT.
        setattr(connection, "wait", wait_in_turn)  # noqa: B010

    def begin(self, work: Callable[[SteppedSession], None], posts: SimpleQueue[Any]) -> None:
        """Do some work in a thread, up to its first statement."""
        self.is_here = self.is_over = self.is_blocked = False
        self.error = None
        self._posts = posts
        self._thread = threading.Thread(target=self._do, args=[work], daemon=True)
        self._thread.start()

    def go(self) -> None:
        """Give it a turn."""
        self.is_here = self.is_blocked = False
        self._go.release()

    def _ask(self) -> None:
        if self._posts is not None and threading.current_thread() is self._thread:
            self.is_here, self.is_blocked = True, False
            self._posts.put(self)
            self._go.acquire()

    def _do(self, work: Callable[[SteppedSession], None]) -> None:
        try:
            work(self)
        except BaseException as error:
            self.error = error
        posts, self._posts = self._posts, None
        self.is_over, self.is_blocked = True, False
        assert posts
        posts.put(self)


class Turns:
    """Lets sessions work, one statement after another.

    Args:
        observer: asks the server which sessions wait for locks.
    """

    def __init__(self, sessions: Sequence[SteppedSession], observer: Connection) -> None:
        self._sessions = sessions
        self._observer = observer
        self._posts: SimpleQueue[SteppedSession] = SimpleQueue()

    def take(
        self,
        works: Sequence[Callable[[SteppedSession], None]],
        choose: Callable[[Sequence[int]], int],
        after: Callable[[SteppedSession], None],
    ) -> list[int]:
        """Let each session do its work; return the numbers of the sessions in the order of turns.

        Args:
            choose: returns one of the numbers of the sessions that may go on.
            after: is called after each turn, with the session that had it.
        """
        taken = []
        sessions = self._sessions[: len(works)]
        for session, work in zip(sessions, works, strict=True):
            session.begin(work, self._posts)
            self._settle(sessions)
        while not all(each.is_over for each in sessions):
            free = [each.number for each in sessions if each.is_here]
            if not free:
                # All wait for each other: the server ends one of them.
                self._posts.get(timeout=LONGEST)
                self._settle(sessions)
                continue
            session = sessions[choose(free)]
            taken.append(session.number)
            session.go()
            self._settle(sessions)
            after(session)
        while not self._posts.empty():
            self._posts.get()
        return taken

    def _settle(self, sessions: Sequence[SteppedSession]) -> None:
        """Wait until each session waits for its turn or for a lock, or is over."""
        while running := [each for each in sessions if not each.is_here and not each.is_over]:
            if not all(each.is_blocked for each in running):
                try:
                    self._posts.get(timeout=PATIENCE)
                    continue
                except Empty:
                    pass
            pids = [each.pid for each in running]
            blocked = {pid for (pid,) in self._observer.execute(BLOCKED, [pids])}
            for each in running:
                each.is_blocked = each.pid in blocked and not each.is_here and not each.is_over
            if all(each.is_blocked for each in running):
                return
