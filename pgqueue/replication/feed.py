"""Follow the WAL: after a commit with events, give the events positions, and wake readers.

The stream only announces commits. The events are moved from the front of the inbox, as without a
feed (`engine/sequence`). So a repeated announcement does no harm, readers may move events at the
same time, and the feed may begin and end at any time.

PostgreSQL announces a commit as soon as the commit is in the WAL. Other sessions see the commit a
moment later, or much later if the commit waits for a standby. The feed asks for an unseen commit
again, until it is visible. The confirmed position is before the first commit whose events are not
in the log yet.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

import psycopg

from pgqueue import signals
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.engine import log, readers, replication, sequence
from pgqueue.engine.values import Connection
from pgqueue.replication.slots import as_it_should_be, with_publication
from pgqueue.replication.stream import Stream
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.threads.wakeup import Wakeup

STAND_BY = timedelta(seconds=1)
"""The interval of checks for a free slot."""
CHECK_EVERY = 10.0
"""Seconds between two checks of the publication and of the server while the stream is open."""
PATIENCE = 1.0
"""The longest wait for the server, in seconds."""
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.25
"""Seconds until the next check of unseen commits."""
BEHIND_NAP = 0.005
"""Seconds until the next try while another session gives positions."""


class WalFeed(Service):
    """Follows the WAL until it is stopped; stands by while another process follows it."""

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
        self._check_at = 0.0
        self._can_be_read = True
        """False: the server failed to read the slot's WAL by the publication."""
        self._announced: dict[int, int] = {}
        """The WAL positions of commits whose events may not be in the log yet, by xid."""

    @property
    def is_streaming(self) -> bool:
        """Whether this process follows the WAL."""
        return self._stream.is_open

    def tick(self) -> timedelta:
        """Wait for commits, move their events, and confirm them."""
        try:
            if not self._stream.is_open and not self._begins():
                return STAND_BY
            self._follow()
        except psycopg.errors.UndefinedObject:
            # The publication was dropped. PostgreSQL refuses to read older WAL by a new one.
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
        """End the connections on which it may wait."""
        super().cut()
        self._stream.cut()

    def finish(self) -> None:
        """Release the slot."""
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
        # Events that were published without a slot are never announced.
        sequence.catch_up(connection)
        readers.tell(connection)
        self._check_at = monotonic() + CHECK_EVERY
        signals.send(signals.feed_started, type(self), slot=self._slot)
        return True

    def _follow(self) -> None:
        if monotonic() >= self._check_at:
            # The stream goes on without the publication from PostgreSQL 18 on, and in any version
            # if the server begins to take the feed for a standby.
            with_publication(self._session.connection, self._slot, self._publication)
            self._check_at = monotonic() + CHECK_EVERY
        committed = self._stream.read(self._nap, self._wakeup)
        self._announced.update((each.xid, each.lsn) for each in committed)
        if committed:
            self._nap = SHORTEST_NAP
        if self._announced:
            self._move(self._session.connection)
        # All commits before the first announced one are in the log; without an announced one, all
        # received commits are.
        self._stream.confirm(min(self._announced.values(), default=self._stream.received))

    def _move(self, connection: Connection) -> None:
        """Move the events of visible commits, and forget these commits.

        While a look may miss an event, one of them is kept.
        """
        # Before the move: a commit is in the WAL before other sessions see it. A commit that is
        # unseen now may be missing from the move, and must not be confirmed.
        kept = set(replication.unseen(connection, list(self._announced)))
        if log.is_marked(connection):
            # The look below may miss an event. A commit that is kept has the feed look again, until
            # a look begins at the inbox's front. The first commit bounds the confirmed position.
            kept.add(min(self._announced, key=self._announced.__getitem__))
        if sequence.advance(connection):
            # The other session's statement may not see all commits that this session sees.
            self._nap = BEHIND_NAP
            return
        # Even if another session gave the positions: that session did not notify the readers.
        readers.tell(connection)
        self._announced = {xid: self._announced[xid] for xid in kept}
        self._nap = min(2 * self._nap, LONGEST_NAP) if kept else PATIENCE

    def _end(self) -> None:
        self._stream.close()
        self._announced.clear()
        self._nap = PATIENCE
