"""The partitions that a reader has leased, and the thread that renews their leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

from pgqueue.database.connections import Session
from pgqueue.engine import groups as engine
from pgqueue.engine import readers
from pgqueue.engine.groups import Partition
from pgqueue.events.consumers import Consumer
from pgqueue.threads.service import Service


@dataclass(eq=False)
class Held:
    """A partition that this reader has leased, and its progress.

    Attributes:
        stored: the last known position of its cursor: a commit may have failed since.
        alone_until: the position up to which events are handled one at a time, so that a failing
            event is identified.
        retry_at: the time of the next attempt, by the monotonic clock.
        suspect: the position of the event during which readers were lost; None: unknown.
        lost: the number of lost readers.
        suspected: the number of next events that may have ended the last reader's process. Each is
            handled alone, and its start is stored before.
    """

    number: int
    position: int
    failures: int
    retry_at: float
    stored: int
    alone_until: int = 0
    suspect: int | None = None
    lost: int = 0
    suspected: int = 0

    @classmethod
    def of(cls, partition: Partition, reach: int) -> Held:
        """Return the state of a partition that was just leased.

        Args:
            reach: the number of events behind its cursor that a reader may have begun.
        """
        retry_at = monotonic() + partition.retry_in
        alone_until = partition.position + 1 if partition.failures else 0
        number, position, failures, _, suspect, lost = partition
        suspected = reach if lost else 0
        return cls(
            number, position, failures, retry_at, position, alone_until, suspect, lost, suspected
        )


class Lost(Exception):
    """This reader no longer holds the partition's lease, or another session moved its cursor."""


class LeaseRenewal(Service):
    """Renews a reader's leases while its handler runs."""

    longest_backoff = timedelta(seconds=1)

    def __init__(
        self, consumer: Consumer, reader_id: UUID, wake: Callable[[], None], *, lease: timedelta
    ) -> None:
        super().__init__()
        self.name = f"leases of the group {consumer.name}"
        self._group = consumer.name
        self._reader_id = reader_id
        self._wake_reader = wake
        self._lease = lease
        self._session = Session(consumer.alias, name="group leases")
        self._lock = threading.Lock()
        self._noted: set[int] = set()
        self._lost: set[int] = set()

    def note(self, partitions: set[int]) -> None:
        """Renew the leases of the given partitions from now on."""
        with self._lock:
            self._noted = partitions
            self._lost -= partitions

    def lost(self, partitions: set[int]) -> set[int]:
        """Return the given partitions whose leases were lost."""
        with self._lock:
            return self._lost & partitions

    def check(self, partition: int) -> None:
        """Raise Lost if the lease of a partition was lost."""
        with self._lock:
            if partition in self._lost:
                raise Lost

    def tick(self) -> timedelta:
        """Renew all leases."""
        connection = self._session.connection
        with self._lock:
            noted = set(self._noted)
        readers.beat(connection, self._reader_id, group=self._group)
        kept = engine.renew(connection, self._group, self._reader_id, lease=self._lease)
        with self._lock:
            self._lost |= noted - kept
        if noted - kept:
            self._wake_reader()
        return self._lease / 3

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
