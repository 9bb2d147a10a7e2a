"""Rebuild a group: read the log from the beginning beside its live readers, and hand over.

The cursor of the live group never moves for this. The rebuild reads up to it, and no further. When
the rebuild is near, its reader takes the live group's partitions for a moment, so that they stand
still. Once both groups are at the same positions, one transaction checks that, calls the user's
function and deletes the rebuild. If a process ends at any point, the next reader goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import NamedTuple

import psycopg
from django.db import transaction

from pgqueue.database import django_connections, guard
from pgqueue.engine import groups as engine
from pgqueue.engine import log
from pgqueue.engine.groups import LEASE, GroupPosition
from pgqueue.engine.values import Connection
from pgqueue.events.consumers import Consumer
from pgqueue.events.consuming import REBALANCE_EVERY, GroupReader
from pgqueue.events.failures import PartitionStopped
from pgqueue.events.leases import Held, Lost
from pgqueue.events.projections import rebuild_name
from pgqueue.threads.service import NO_NAP
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")

NEAR = 1000
"""Positions that a rebuild may be behind when the live group is held for the hand-over."""
HOLD_FOR = 4.0
"""Seconds for which the live group waits for its rebuild, at most; less than a lease."""
PAUSE = 10.0
"""Seconds until the live group is held again."""
LOOK = timedelta(milliseconds=50)
CALLING = 0
"""The partition whose reader hands over."""


class Gap(NamedTuple):
    """How far a rebuild is behind its live group.

    Attributes:
        behind: the sum of all partitions, in positions.
        is_level: whether both have the same partitions at the same positions.
        is_failing: whether an event of the rebuild has failed, and holds its partition.
    """

    behind: int
    is_level: bool
    is_failing: bool

    @classmethod
    def of(cls, rows: Sequence[GroupPosition], *, live: str, rebuilt: str) -> Gap:
        ends = {each.partition: each.position for each in rows if each.group == live}
        own = {each.partition: each.position for each in rows if each.group == rebuilt}
        behind = sum(max(ends[number] - own.get(number, 0), 0) for number in ends)
        is_failing = any(
            each.is_failing for each in rows if each.group == rebuilt and each.partition != CALLING
        )
        return cls(behind, bool(ends) and ends == own, is_failing)


class RebuildReader(GroupReader):
    """Reads for the rebuild of one group until it is handed over, deleted or stopped.

    Args:
        consumer: the handler of the live group, which has a `rebuild`.
    """

    def __init__(self, consumer: Consumer, *, lease: timedelta = LEASE) -> None:
        super().__init__(consumer.for_rebuild(), lease=lease)
        self._live = consumer
        self._ends: dict[int, int] = {}
        self._held_until = 0.0
        self._hold_again_at = 0.0
        self._attempts = 0

    def tick(self) -> timedelta:
        """Handle the next events up to the live group's position, and hand over if it is near."""
        rows = engine.positions(self._session.connection, [self._live.name])
        self._ends = {each.partition: each.position for each in rows}
        nap = super().tick()
        held = self._held.get(CALLING)
        if held is None or self._stopping.is_set() or monotonic() < self._hold_again_at:
            return nap
        if self._come_to_hand_over(self._session.connection, held):
            return NO_NAP
        return min(nap, LOOK) if self._held_until else nap

    def finish(self) -> None:
        """Give back all partitions, and the live group's, too."""
        if self._session.is_open:
            with suppress(psycopg.Error):  # their lease ends
                self._give_back(self._session.connection)
        super().finish()

    def _make(self) -> int:
        """Stop: the rebuild was handed over by another process, or was deleted."""
        self.stop()
        return 0

    def _stretch_of(self, held: Held) -> int:
        return min(log.REACH, max(self._ends.get(held.number, 0) - held.position, 0))

    # --- The hand-over

    def _come_to_hand_over(self, connection: Connection, held: Held) -> bool:
        """Hold the live group, or hand over; return whether to look again at once."""
        if held.failures and monotonic() < held.retry_at:
            self._give_back(connection)
            return False
        rows = engine.positions(connection, self._names)
        gap = Gap.of(rows, live=self._live.name, rebuilt=self._consumer.name)
        if not self._held_until:
            if gap.behind > NEAR or gap.is_failing:
                return False
            if engine.seize(connection, self._live.name, self.id, lease=self._lease):
                self._held_until = monotonic() + HOLD_FOR
            return bool(self._held_until)
        if gap.is_level:
            self._hand_over(connection, held)
            return False
        if gap.is_failing or monotonic() > self._held_until:
            self._give_back(connection)
            self._hold_again_at = monotonic() + PAUSE
        return False

    @property
    def _names(self) -> list[str]:
        return [self._live.name, self._consumer.name]

    def _hand_over(self, connection: Connection, held: Held) -> None:
        context = guard.context()
        try:
            context.run(self._swap)
        except Lost:
            self._give_back(connection)
            self._hold_again_at = monotonic() + PAUSE
        except BaseException as error:
            # Even SystemExit: the user's function does not end its reader.
            self._give_back(connection)
            self._attempts = max(self._attempts, held.failures) + 1
            self._note_refusal(connection, held, error)
        else:
            logger.info("The group %s was rebuilt and handed over", self._live.name)
            self._held_until = 0.0
            self.stop()
        finally:
            django_connections.close_changed_connections()

    def _swap(self) -> None:
        """Check that both groups are level, call the user's function, and end the rebuild.

        Raises:
            Lost: they are not level, or other readers have their partitions.
        """
        rebuild, live, own = self._live.rebuild, self._live.name, self._consumer.name
        django = self._watched()
        with transaction.atomic(using=django.alias, durable=True):
            rows = engine.positions(django, self._names, locks=True)
            needed = [each for each in rows if each.group == live or each.partition == CALLING]
            is_mine = all(each.reader == self.id for each in needed)
            if rebuild is None or not is_mine or not Gap.of(rows, live=live, rebuilt=own).is_level:
                raise Lost
            guard.call(rebuild.hand_over)
            engine.delete(django, own)
            engine.release(django, live, self.id, [each.partition for each in rows])

    def _note_refusal(self, connection: Connection, held: Held, error: BaseException) -> None:
        try:
            self._failing.note_hand_over(connection, held, error, failures=self._attempts)
        except Lost:
            self._lose(held)
        except PartitionStopped:
            self._attempts = 0
            self._held.pop(held.number, None)

    def _give_back(self, connection: Connection) -> None:
        """Let the readers of the live group go on."""
        if self._held_until:
            engine.release(connection, self._live.name, self.id, list(self._ends))
            self._held_until = 0.0


class RebuildableReader(GroupReader):
    """Reads for a group that can be rebuilt, and for its rebuild while there is one."""

    def __init__(self, consumer: Consumer, *, lease: timedelta = LEASE) -> None:
        super().__init__(consumer, lease=lease)
        self._rebuild: RebuildReader | None = None
        self._look_at = 0.0

    def tick(self) -> timedelta:
        """Start a reader of the rebuild if there is one; handle the next events of the group."""
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + REBALANCE_EVERY
            self._look_for_rebuild(self._session.connection)
        return super().tick()

    def stop(self) -> None:
        """Ask both readers to end after the event that they handle now."""
        super().stop()
        if self._rebuild:
            self._rebuild.stop()

    def finish(self) -> None:
        """Give back the partitions, and wait for the reader of the rebuild."""
        super().finish()
        if self._rebuild:
            self._rebuild.stop()
            self._rebuild.join()

    def excuse(self) -> None:
        """Note that this process ends by request during a handler: its event is no cause."""
        super().excuse()
        if self._rebuild and self._rebuild.is_alive():
            self._rebuild.excuse()

    def _look_for_rebuild(self, connection: Connection) -> None:
        if self._rebuild and self._rebuild.is_alive():
            return
        self._rebuild = None
        if engine.partitions_of(connection, rebuild_name(self._consumer.name)) is not None:
            self._rebuild = RebuildReader(self._consumer, lease=self._lease)
            self._rebuild.start()


def reader_of(consumer: Consumer) -> GroupReader:
    """Return a reader of a group, which also reads for its rebuilds if the group can be rebuilt."""
    return RebuildableReader(consumer) if consumer.rebuild else GroupReader(consumer)
