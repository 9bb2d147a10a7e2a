"""Discard many messages of a channel, 1 000 in a transaction."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import partial

from pgqueue.database.connections import borrow
from pgqueue.engine import purge
from pgqueue.engine.purge import PurgeBounds
from pgqueue.states import State
from pgqueue.values.error_words import checked_option
from pgqueue.values.number_checks import as_age, as_count


def purgeable_states(states: Collection[str]) -> set[State]:
    """Return the checked states of a purge.

    Raises:
        ValueError: one is unknown, or running.
    """
    meant = {State(state) for state in states}
    if State.RUNNING in meant:
        raise ValueError("Running messages are not purged: cancel() asks them to stop.")
    return meant


def bounds(alias: str, channel: str) -> PurgeBounds:
    """Return the bounds of all messages of a channel."""
    with borrow(alias) as connection:
        return purge.bounds(connection, channel, keep=None, older_than=None)


def bounds_of_surplus(
    alias: str, channel: str, *, older_than: timedelta | float | None, keep: int | None
) -> PurgeBounds:
    """Return the bounds of the messages that are too old or too many.

    Raises:
        ValueError: neither is given, or one has an invalid value.
    """
    if older_than is None and keep is None:
        raise ValueError("Give older_than, or keep, or both.")
    age = None if older_than is None else checked_option(as_age, "older_than", older_than)
    keep = None if keep is None else checked_option(partial(as_count, least=0), "keep", keep)
    with borrow(alias) as connection:
        return purge.bounds(connection, channel, keep=keep, older_than=age)


def discard(
    alias: str, channel: str, states: Collection[State], bounds: PurgeBounds, *, up_to: int
) -> int:
    """Discard the messages in these states within the bounds; return how many there were.

    Args:
        up_to: the id up to which all messages are discarded. Behind it, the age counts.
    """
    total, newest = 0, bounds.newest or 0
    last: int | None = 0
    while last is not None and last < newest:
        with borrow(alias) as connection:
            step = purge.discard(
                connection,
                channel,
                states=states,
                after=last,
                newest=newest,
                up_to=up_to,
                before=bounds.before,
            )
        total, last = total + step.ended, step.last
    return total
