"""Follow the WAL: a commit that published events has them given positions, and readers woken.

The stream only says that something has committed. The events are moved as they always are, from the
inbox's front (`engine/sequence`): so a commit that is announced again finds nothing to move, who
reads may do the same meanwhile, and the feed may begin, end or be left out at any time.

PostgreSQL announces a commit as soon as it is in the WAL, a moment before others see it, or long
before, if it waits for a standby. Such a one is asked for again until it is seen. What is confirmed
lies before the first that is not in the log yet.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg

from pgqueue import signals
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.engine import readers, replication, sequence
from pgqueue.engine.values import Connection
from pgqueue.replication.slots import as_it_should_be
from pgqueue.replication.stream import Stream
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.threads.wakeup import Wakeup

STAND_BY = timedelta(seconds=1)
"""How often it is looked whether the slot is free."""
PATIENCE = 1.0
"""Seconds that it waits for the server at once."""
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.25
"""Seconds until it is asked again for what is not seen yet."""
BEHIND_NAP = 0.005
"""Seconds, while another session gives positions."""


class WalFeed(Service):
    """Follows the WAL until it is stopped; stands by while another process does."""

    def __init__(self, alias: str) -> None:
        super().__init__()
        self.name = "feed"
        options = settings()
        self._slot, self._publication = options.replication_slot, options.publication
        self._session = Session(alias, name="feed")
        self._stream = Stream(
            Session(alias, name="replication", replication="database"),
            slot=self._slot,
            publication=self._publication,
        )
        self._wakeup = Wakeup()
        self._nap = PATIENCE
        self._can_be_read = True
        """False: the server could not read the WAL of the slot by the publication."""
        self._announced: dict[int, int] = {}
        """Of commits that are not known to be in the log: where they are in the WAL, by xid."""

    @property
    def is_streaming(self) -> bool:
        """Whether it is this process that follows the WAL."""
        return self._stream.is_open

    def tick(self) -> timedelta:
        """Wait for commits, have their events moved, and confirm them."""
        try:
            if not self._stream.is_open and not self._begins():
                return STAND_BY
            self._follow()
        except psycopg.errors.UndefinedObject:
            # The publication was dropped. One that is made later is unknown in older WAL.
            self._can_be_read = False
            self._end()
            raise
        except BaseException:
            self._end()
            raise
        return NO_NAP

    def wake(self) -> None:
        """End the wait."""
        super().wake()
        self._wakeup.set()

    def cut(self) -> None:
        """End the connections that it may wait on."""
        super().cut()
        self._stream.cut()

    def finish(self) -> None:
        """Leave the slot to others."""
        self._end()
        self._session.close()
        self._wakeup.close()

    def _begins(self) -> bool:
        """Begin to stream; return whether the slot was free."""
        connection = self._session.connection
        if not as_it_should_be(
            connection, self._slot, self._publication, can_be_read=self._can_be_read
        ):
            return False
        self._can_be_read = True
        try:
            self._stream.open()
        except psycopg.errors.ObjectInUse:
            return False
        # What was published while there was no slot is announced by nobody.
        sequence.catch_up(connection)
        readers.tell(connection)
        signals.send(signals.feed_started, type(self), slot=self._slot)
        return True

    def _follow(self) -> None:
        committed = self._stream.read(self._nap, self._wakeup)
        self._announced.update((each.xid, each.lsn) for each in committed)
        if committed:
            self._nap = SHORTEST_NAP
        if self._announced:
            self._move(self._session.connection)
        # All before the first of those is in the log; without any, all that was received.
        self._stream.confirm(min(self._announced.values(), default=self._stream.received))

    def _move(self, connection: Connection) -> None:
        """Have all that is seen by now moved, and its commits forgotten."""
        # Before the move: a commit is in the WAL before other sessions see it. A commit that is
        # unseen now may be missing from the move, and must not be confirmed.
        unseen = replication.unseen(connection, list(self._announced))
        if sequence.advance(connection):
            # Its statement may not see all that we do.
            self._nap = BEHIND_NAP
            return
        # To whoever gave the positions: those who wait were told by nobody.
        readers.tell(connection)
        self._announced = {xid: self._announced[xid] for xid in unseen}
        self._nap = min(2 * self._nap, LONGEST_NAP) if unseen else PATIENCE

    def _end(self) -> None:
        self._stream.close()
        self._announced.clear()
        self._nap = PATIENCE
