"""Match a stretch of the log with subscriptions; if this fails, find the cause.

If the statement fails without any subscription, too, the step is tried again. If no message of an
event can be stored, the event is set aside. Otherwise a subscription is at fault: it is paused in
front of the event that it fails with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import Rollback

from pgqueue import signals
from pgqueue.database.sql_files import load
from pgqueue.engine import errors, groups, predicates
from pgqueue.engine.culprits import by_halves, in_words, may_be_own
from pgqueue.engine.values import Connection

SQL = load(__name__)

PATIENCE = 10.0
"""Seconds that matching may take: a subscription that takes longer by itself is paused."""
HASTE = 1.0
"""Seconds for a part of the subscriptions, once all together have failed."""
LONGEST = 30.0
"""Seconds after which the search for the cause ends; the worker's watchdog waits longer."""
CHANNEL = "subscriptions"
"""The channel of the dead letters of events that were set aside."""
TASK = "pgqueue.events.dead_events.dispatch"
"""The task that runs if such a dead letter is replayed."""

R = TypeVar("R")
Names = Sequence[str]


class MatchStretch(NamedTuple):
    """The events of a step, after a position and up to another, and the log's last position."""

    after: int
    upto: int
    head: int


class _Stopped(Exception):
    """A subscription fails with an event; it was matched with all events in front of this one."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__(position)
        self.position = position
        self.error = error


class Matching:
    """Match the events of a stretch, once.

    Args:
        connection: in a transaction, with the isolation READ COMMITTED.
        names: the names of the subscriptions; None: all subscriptions that follow.
    """

    def __init__(
        self, connection: Connection, names: list[str] | None, stretch: MatchStretch
    ) -> None:
        self._connection = connection
        self._names = names
        self._positions = range(stretch.after + 1, stretch.upto + 1)
        self._until = monotonic() + LONGEST
        self._met: list[tuple[int, str]] = []
        self._without: list[int] = []
        self._has_tried_events = False
        self._stopped: dict[str, _Stopped] = {}

    def run(self) -> int:
        """Store the messages; leave out events and subscriptions at fault; return their number."""
        for predicate in self._predicates():
            self._meet(predicate)
        stored = self._store()
        for name, stopped in self._stopped.items():
            error = f"{in_words(stopped.error)} (at position {stopped.position})"
            given = {"name": name, "after": stopped.position - 1, "error": error}
            self._connection.execute(SQL["pause"], given)
            signals.send(signals.subscription_paused, Matching, name=name, error=error)
        return stored

    def run_or_raise(self) -> int:
        """Store the messages, and return their number.

        Raises:
            psycopg.Error: the statement fails.
        """
        for predicate in self._predicates():
            self._met += self._evaluate(predicate, self._names, self._positions)
        return self._match(self._names, self._positions, PATIENCE)

    def _given(self, names: Names | None, positions: Sequence[int]) -> dict[str, Any]:
        first, last = (positions[0], positions[-1]) if positions else (1, 0)
        chosen = None if names is None else list(names)
        return {"after": first - 1, "upto": last, "names": chosen, "without": self._without}

    # --- Predicates in SQL

    def _predicates(self) -> list[str]:
        given = self._given(self._names, self._positions)
        return [each for (each,) in self._connection.execute(SQL["predicates"], given).fetchall()]

    def _meet(self, predicate: str) -> None:
        """Evaluate a predicate once for all its subscriptions; stop subscriptions that fail."""
        own = {**self._given(self._names, self._positions), "predicate": predicate}
        # A subscription that catches up by itself would move on without its events.
        if self._names is None and monotonic() > self._until:
            self._connection.execute(SQL["leave_all"], own)
            return None
        try:
            self._met += self._evaluate(predicate, self._names, self._positions)
        except Exception as error:
            if not _is_own(error):
                raise
            if self._set_events_aside(error):
                return self._meet(predicate)
            names = [name for (name,) in self._connection.execute(SQL["with_predicate"], own)]
            return self._meet_apart(predicate, names, error)

    def _meet_apart(self, predicate: str, names: Names, error: Exception) -> None:
        def some(names: Names) -> list[tuple[int, str]]:
            if self._is_too_late_for(names):
                return []
            # PostgreSQL may evaluate it for events without any subscription.
            return self._evaluate(predicate, names, self._positions if names else [])

        def stop(name: str, error: Exception) -> list[tuple[int, str]]:
            def on(positions: Sequence[int]) -> list[tuple[int, str]]:
                return self._evaluate(predicate, [name], positions)

            return [each for met in self._until_it_fails(name, on, error) for each in met]

        try:
            met = list(by_halves(some, names, stop, error=error, is_own=_is_own))
        except Exception as raised:
            if not _is_own(raised):
                raise
            # The predicate fails with any events.
            self._stopped |= dict.fromkeys(names, _Stopped(self._positions[0], raised))
            return
        self._met += [each for some_met in met for each in some_met]

    def _evaluate(
        self, predicate: str, names: Names | None, positions: Sequence[int]
    ) -> list[tuple[int, str]]:
        given = {**self._given(names, positions), "predicate": predicate}
        is_part = names is not None and len(names) != 1
        with _in_time(self._connection, HASTE if is_part else PATIENCE):
            row = self._connection.execute(SQL["to_evaluate"], given).fetchone()
            return predicates.evaluate(self._connection, predicate, *(row or ("[]", "[]")))

    # --- Messages

    def _store(self) -> int:
        """Store the messages; stop the subscriptions that fail."""
        try:
            return self._match(self._names, self._positions, PATIENCE)
        except Exception as error:
            if not _is_own(error):
                raise
            if self._set_events_aside(error):
                return self._store()
            return sum(by_halves(self._some, self._each(), self._stop, error=error, is_own=_is_own))

    def _some(self, names: Names) -> int:
        if self._is_too_late_for(names):
            return 0
        return self._match(names, self._positions, PATIENCE if len(names) == 1 else HASTE)

    def _stop(self, name: str, error: Exception) -> int:
        def on(positions: Sequence[int]) -> int:
            return self._match([name], positions, PATIENCE)

        return sum(self._until_it_fails(name, on, error))

    def _match(self, names: Names | None, positions: Sequence[int], patience: float) -> int:
        given = {
            **self._given(names, positions),
            "met_positions": [position for position, _ in self._met],
            "met_names": [name for _, name in self._met],
        }
        with _in_time(self._connection, patience):
            row = self._connection.execute(SQL["match"], given).fetchone()
            return row[0] if row else 0

    # --- Faults

    def _each(self) -> list[str]:
        """Return the names of the subscriptions."""
        if self._names is not None:
            return self._names
        return [name for (name,) in self._connection.execute(SQL["followers"])]

    def _is_too_late_for(self, names: Names) -> bool:
        """Return whether the search has taken too long; let these subscriptions catch up later."""
        is_too_late = len(names) > 1 and monotonic() > self._until
        if is_too_late:
            given = {"names": list(names), "after": self._positions[0] - 1}
            self._connection.execute(SQL["leave"], given)
        return is_too_late

    def _until_it_fails(
        self, name: str, on: Callable[[Sequence[int]], R], error: Exception
    ) -> list[R]:
        """Match one subscription with the events in front of the event that it fails with."""
        done: list[R] = []

        def stop(position: int, error: Exception) -> R:
            raise _Stopped(position, error)

        def some(positions: Sequence[int]) -> R:
            if positions and monotonic() > self._until:
                raise _Stopped(positions[0], error)
            return on(positions)

        try:
            if isinstance(error, psycopg.errors.QueryCanceled):
                raise _Stopped(self._positions[0], error)  # each try would take as long
            done += by_halves(some, self._positions, stop, error=error)
        except _Stopped as stopped:
            before = self._stopped.get(name, stopped)
            self._stopped[name] = min(stopped, before, key=lambda each: each.position)
        except Exception as raised:
            if not _is_own(raised):
                raise
            # Only this subscription fails even without an event.
            self._stopped[name] = _Stopped(self._positions[0], raised)
        return done

    def _set_events_aside(self, error: Exception) -> bool:
        """Set aside the events of which no message can be stored; return whether there are any.

        Each event gets a dead letter, by which an operator has it matched again.

        Raises:
            psycopg.Error: `error`, if no message at all can be stored.
        """
        if self._has_tried_events or isinstance(error, psycopg.errors.QueryCanceled):
            return False
        self._has_tried_events = True
        found: dict[int, Exception] = {}
        try:
            list(by_halves(self._try_events, self._positions, found.__setitem__))
            with self._connection.transaction():
                for position, reason in found.items():
                    self._park(position, reason)
        except psycopg.Error:
            # Not even a message without an event can be stored: no event is at fault.
            raise error from None
        self._without += found
        for position, reason in found.items():
            said = in_words(reason)
            signals.send(signals.event_set_aside, Matching, position=position, error=said)
        return bool(found)

    def _try_events(self, positions: Sequence[int]) -> None:
        given = {**self._given(None, positions), "channel": CHANNEL, "task": TASK}
        with self._connection.transaction():
            self._connection.execute(SQL["try_events"], given)
            raise Rollback

    def _park(self, position: int, error: Exception) -> None:
        described = json.loads(errors.describe(error, attempt=1, worker=""))
        # The error's own text may have the values of a row.
        described |= {"message": in_words(error), "traceback": ""}
        letter = groups.Parked(
            channel=CHANNEL,
            key="",
            task=TASK,
            payload=json.dumps({"args": [position, self._each()], "kwargs": {}}),
            errors=json.dumps([described]),
            failures=1,
        )
        groups.park(self._connection, letter)


def match_again(connection: Connection, position: int, names: Collection[str]) -> int:
    """Match an event that was set aside; return the number of stored messages.

    Args:
        connection: in a transaction, with the isolation READ COMMITTED.
        names: the names of the subscriptions that it was set aside for.

    Raises:
        psycopg.Error: the cause still exists.
    """
    stretch = MatchStretch(position - 1, position, position)
    return Matching(connection, list(names), stretch).run_or_raise()


def exists(connection: Connection, position: int) -> bool:
    """Return whether the log has an event at a position."""
    return bool(connection.execute(SQL["exists"], {"position": position}).fetchone())


def _is_own(error: BaseException) -> bool:
    """Return whether a subscription or an event may be at fault; a time-out counts, too."""
    return may_be_own(error) or isinstance(error, psycopg.errors.QueryCanceled)


@contextmanager
def _in_time(connection: Connection, patience: float) -> Iterator[None]:
    """Open a savepoint in which a statement may take at most `patience` seconds."""
    began = monotonic()
    try:
        with connection.transaction():
            given = {"patience": _spelled(patience), "lock_patience": _spelled(patience / 2)}
            connection.execute(SQL["set_up"], given)
            yield
            connection.execute(SQL["set_back"])
    except psycopg.errors.QueryCanceled as error:
        if monotonic() - began < patience:
            # Another session has cancelled the statement: it is tried again unchanged.
            raise psycopg.OperationalError(str(error)) from error
        raise


def _spelled(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"
