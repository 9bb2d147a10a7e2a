"""Decide how to wait when there is nothing to claim: when to be notified, and how long to nap.

A worker that found nothing asks producers to notify it, and claims once more. A producer whose
transaction began before does not see this wish. Naps that double from 10 ms find its messages: the
worker naps no longer than that transaction had lasted.

Notifications are expensive for producers. So a worker that finds work often, even if it keeps up
with it, withdraws its wish, and asks again only after several claims found nothing.

This file asks no database, and takes the time from its caller.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta

SHORTEST_NAP = timedelta(milliseconds=10)
SHORTEST_PAUSE = timedelta(milliseconds=1)
"""The shortest nap until a rate allows the next start."""
LISTENING_NAP = timedelta(seconds=20)
"""The longest nap while listening: a half-open connection is only noticed by a query."""
DEAF_NAP = timedelta(seconds=0.5)
"""The longest nap without listening."""
EMPTY_CLAIMS_AFTER_WITHDRAWAL = 3
FULL_CLAIMS_WHEN_BUSY = 3
CLAIMS_A_SECOND_WHEN_BUSY = 50
WITHDRAW_EVERY = 1.0  # seconds, at most


class Idle:
    """The idle policy of one worker or consumer.

    Args:
        poll_interval: the longest nap.
        full_claims_when_busy: after so many full claims in a row notifications are not worth their
            cost; None: full claims say nothing, since few messages are claimed at once.
    """

    def __init__(
        self,
        poll_interval: timedelta,
        *,
        full_claims_when_busy: int | None = FULL_CLAIMS_WHEN_BUSY,
    ) -> None:
        self._poll_interval = poll_interval
        self._nap = SHORTEST_NAP
        self._empty_claims = 0
        self._busyness = Busyness(full_claims_when_busy)
        self._has_withdrawn = False
        self._withdrawn_at = -WITHDRAW_EVERY

    def found(self, now: float, *, is_full: bool) -> None:
        """Note a claim that found messages.

        Args:
            now: seconds of a monotonic clock.
            is_full: whether it found as many as it asked for.
        """
        self._empty_claims = 0
        self._nap = SHORTEST_NAP
        self._busyness.found(now, is_full=is_full)

    def found_nothing(self) -> None:
        """Note a claim that found nothing."""
        self._empty_claims += 1
        self._busyness.found_nothing()

    def should_ask(self) -> bool:
        """Return whether enough claims found nothing to ask for notifications."""
        patience = EMPTY_CLAIMS_AFTER_WITHDRAWAL if self._has_withdrawn else 1
        return self._empty_claims >= patience

    def asked(self) -> None:
        """Note that notifications were asked for."""
        self._has_withdrawn = False

    def should_withdraw(self, now: float) -> bool:
        """Return whether so much work is found that notifications only cost; True once a second."""
        return self._busyness.is_busy() and now - self._withdrawn_at >= WITHDRAW_EVERY

    def withdrew(self, now: float) -> None:
        """Note that the wish for notifications was withdrawn."""
        self._withdrawn_at = now
        self._has_withdrawn = True

    def next_nap(self, *, is_listening: bool, wake_in: timedelta | None) -> timedelta:
        """Return how long to nap now; each nap is twice as long as the one before.

        Args:
            is_listening: whether notifications end the nap.
            wake_in: how long until a message may start, as the claimer knows; None: unknown.
        """
        longest = min(self._poll_interval, LISTENING_NAP if is_listening else DEAF_NAP)
        nap = min(self._nap, longest)
        self._nap = min(2 * nap, longest)
        return nap if wake_in is None else max(min(nap, wake_in), SHORTEST_PAUSE)


class Busyness:
    """Whether claims find so much work that notifications would only cost."""

    def __init__(self, full_claims: int | None = FULL_CLAIMS_WHEN_BUSY) -> None:
        self._full_claims = full_claims
        self._found_at: deque[float] = deque(maxlen=CLAIMS_A_SECOND_WHEN_BUSY)
        self._full_in_a_row = 0

    def found(self, now: float, *, is_full: bool) -> None:
        """Count a claim that found messages."""
        self._found_at.append(now)
        self._full_in_a_row = self._full_in_a_row + 1 if is_full else 0

    def found_nothing(self) -> None:
        """Count a claim that found nothing."""
        self._full_in_a_row = 0

    def is_busy(self) -> bool:
        """Return whether several claims in a row were full, or a second had many with messages."""
        if self._full_claims and self._full_in_a_row >= self._full_claims:
            return True
        many = len(self._found_at) == CLAIMS_A_SECOND_WHEN_BUSY
        return many and self._found_at[-1] - self._found_at[0] <= 1
