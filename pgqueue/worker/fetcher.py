"""Claim messages and fill the buffer; when there are none, wait well."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta

from pgqueue.claiming.claimer import Claimed, Claimer
from pgqueue.claiming.listener import ClaimListener
from pgqueue.claiming.presence import Presence
from pgqueue.connections import Session
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.service import NO_NAP, Service
from pgqueue.worker.buffer import LARGEST, Buffer
from pgqueue.worker.held import Held, Holding
from pgqueue.worker.sorting import Sorting

BATCH = 1000
HELD = LARGEST + 2 * BATCH
PAYLOADS = 64 * 1024 * 1024
"""What the payloads in the buffer may take together, in bytes, if they are as large as the last."""
SHORTEST_NAP = timedelta(milliseconds=10)
SHORTEST_PAUSE = timedelta(milliseconds=1)
"""Until a rate lets something go on."""
LOOK_FOR_STALE = timedelta(seconds=1)
LISTENING_NAP = timedelta(seconds=20)
"""The longest nap of one who listens: what died half-open says nothing until it is asked."""
DEAF_NAP = timedelta(seconds=0.5)
"""The longest nap of one who listens to nothing."""
EMPTY_CLAIMS_AFTER_WITHDRAWAL = 3
FULL_CLAIMS_WHEN_BUSY = 3
CLAIMS_A_SECOND_WHEN_BUSY = 50


class Fetcher(Service):
    """Claims as much as will be run in about a second, if what runs now goes on as before.

    A worker that found nothing says so in its row and claims once more: from then on
    producers notify it. A transaction that was open already did not see that; the naps,
    doubling from 10 ms, find its messages not later than the rest of its own duration.

    Notifying is dear for producers: a worker that finds work often, even if it keeps up,
    withdraws that, and naps from 10 ms on until it found nothing three times in a row.

    Args:
        slots: how many messages run at once.
        give_back: called with what was claimed, and had better be run by others.
        listens: whether it is to hear of new messages. It does on the connection that it claims on:
            that one is awake then, and no other thread has to wake this one.
        on_due_earlier: called when it hears that something delayed is.
    """

    def __init__(
        self,
        session: Session,
        buffer: Buffer | Sorting,
        holding: Holding,
        presence: Presence,
        *,
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        slots: int,
        lease: timedelta,
        poll_interval: timedelta,
        give_back: Callable[[Held], None],
        listens: bool,
        on_due_earlier: Callable[[], None],
    ) -> None:
        super().__init__()
        self._session = session
        self._buffer = buffer
        self._holding = holding
        self._presence = presence
        self._slots = slots
        self._poll_interval = poll_interval
        self._give_back = give_back
        self._listens = listens
        self._on_due_earlier = on_due_earlier
        self._listener = ClaimListener(self.hear)
        self._claimer = Claimer(
            session,
            presence,
            channels=channels,
            excluded=excluded,
            lease=lease,
        )
        self._nap = SHORTEST_NAP
        self._empty_claims = 0
        self._business = Business()
        self._has_withdrawn = False
        self._withdrawn_at = 0.0
        self._payload_size = 1
        self._waits_for_room = False
        self.is_idle = False

    def hear(self, notification: str) -> bool:
        """Hear that a channel has something ready; say whether it is one to claim from."""
        if notification == DUE_EARLIER:
            self._on_due_earlier()
            return False
        serves = self._claimer.serves(notification)
        if serves:
            self._claimer.expect(notification)
        return serves

    def rest(self, nap: timedelta) -> None:
        """Nap until woken, or until it hears something; no longer than this."""
        self._listener.wait(nap.total_seconds())

    def wake(self) -> None:
        """End the nap."""
        self._listener.wake()

    def make_room(self) -> None:
        """Say that there may be room now."""
        if self._waits_for_room:
            self.wake()

    def tick(self) -> timedelta:
        """Claim once, or find that there is no room, or nothing."""
        # First the word, then the look: who makes room meanwhile is not missed.
        self._waits_for_room = True
        room = self._room()
        self._waits_for_room = room <= 0
        if self._waits_for_room:
            return self._wait_for_room()
        limit = min(room, BATCH)
        is_listening = self._listens and self._listener.listen(self._claimer.connect().connection)
        claimed = self._claimer.claim(limit, thoroughly=False)
        self._hold(claimed)
        if not claimed:
            self._business.note_rest()
            return self._wait(is_listening=is_listening)
        self.is_idle = False
        self._empty_claims = 0
        self._nap = SHORTEST_NAP
        self._business.note(is_full=len(claimed) >= limit)
        if self._business.is_brisk():
            self._withdraw()
        return NO_NAP

    def _wait_for_room(self) -> timedelta:
        if not len(self._buffer):
            return self._poll_interval
        for held in self._buffer.stale():
            self._give_back(held)
        return min(self._poll_interval, LOOK_FOR_STALE)

    def _room(self) -> int:
        fitting = max(1, PAYLOADS // self._payload_size)
        wanted = self._buffer.room(fitting)
        # What is held beyond the buffer is running, or waits to be settled: while settles
        # are slow, claiming more would only pile it up. The settler wakes us.
        return min(wanted, min(HELD, 2 * fitting) + self._slots - len(self._holding))

    def _hold(self, claimed: Sequence[Claimed]) -> None:
        held = [Held(*each) for each in claimed]
        self._holding.add(held)
        if self._stopping.is_set():
            # Answered late: nobody looks into the buffer any more.
            for each in held:
                self._give_back(each)
            return
        self._buffer.put(held)
        if held:
            sizes = [len(each.claim.payload or b"") + len(each.claim.body or b"") for each in held]
            self._payload_size = max(1, sum(sizes) // len(sizes), self._payload_size // 2)

    def _wait(self, *, is_listening: bool) -> timedelta:
        """Ask for notices, if nothing was found often enough; else nap."""
        self._empty_claims += 1
        patience = EMPTY_CLAIMS_AFTER_WITHDRAWAL if self._has_withdrawn else 1
        if is_listening and not self._presence.wants_notice and self._empty_claims >= patience:
            self._presence.want_notice(self._session.connection, True)
            self._has_withdrawn = False
            return NO_NAP  # and claim once more, now that producers can see it
        self.is_idle = True
        longest = min(self._poll_interval, LISTENING_NAP if is_listening else DEAF_NAP)
        nap = min(self._nap, longest)
        self._nap = nap * 2
        wake_in = self._claimer.wake_in
        return nap if wake_in is None else max(min(nap, wake_in), SHORTEST_PAUSE)

    def _withdraw(self) -> None:
        """Ask for no more notices, once a second at most."""
        now = time.monotonic()
        if self._presence.wants_notice and now - self._withdrawn_at >= 1:
            self._withdrawn_at = now
            self._has_withdrawn = True
            self._presence.want_notice(self._session.connection, False)

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
        self._listener.close()


class Business:
    """Whether claims find so much work that notices would only cost."""

    def __init__(self) -> None:
        self._found_at: deque[float] = deque(maxlen=CLAIMS_A_SECOND_WHEN_BUSY)
        self._full_in_a_row = 0

    def note(self, *, is_full: bool) -> None:
        """Count a claim that found work."""
        self._found_at.append(time.monotonic())
        self._full_in_a_row = self._full_in_a_row + 1 if is_full else 0

    def note_rest(self) -> None:
        """Note a claim that found nothing."""
        self._full_in_a_row = 0

    def is_brisk(self) -> bool:
        """Whether several claims in a row were full, or a second saw many with something."""
        if self._full_in_a_row >= FULL_CLAIMS_WHEN_BUSY:
            return True
        many = len(self._found_at) == CLAIMS_A_SECOND_WHEN_BUSY
        return many and self._found_at[-1] - self._found_at[0] <= 1
