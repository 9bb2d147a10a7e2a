"""Claim messages and fill the buffer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from pgqueue.calls.outcomes import HandedBack
from pgqueue.claiming.claimer import Claimed, Claimer
from pgqueue.claiming.idle import Idle
from pgqueue.claiming.listener import ClaimListener
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.threads.service import NO_NAP, Service
from pgqueue.worker.buffer import LARGEST
from pgqueue.worker.collector import Collector
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.settler import Settler
from pgqueue.worker.wakeups import Wakeups

BATCH = 1000
LEASED = LARGEST + 2 * BATCH
PAYLOADS = 64 * 1024 * 1024
"""The limit of payload bytes in the buffer, estimated by the size of the last claimed payloads."""
LOOK_FOR_STALE = timedelta(seconds=1)


class Fetcher(Service):
    """Claims about as many messages as run in a second.

    Args:
        claimer: Claims, and registers the worker under an id.
        slots: The number of messages that run at once.
        poll_interval: The longest nap.
        listens: Whether it listens for new messages. It listens on the claiming connection, so that
            no other thread must wake this one.
        settler: Takes back a claimed message that another worker should run. While it is not
            connected, nothing is claimed: at a connection limit of the role, unwritten endings
            would pile up.
        wakeups: End its nap. Wake the promoter when a delayed message is due earlier, and the
            heartbeat when a run must be cancelled.
    """

    def __init__(
        self,
        claimer: Claimer,
        buffer: Collector,
        leases: Leases,
        settler: Settler,
        wakeups: Wakeups,
        *,
        slots: int,
        poll_interval: timedelta,
        listens: bool,
    ) -> None:
        super().__init__()
        self._claimer = claimer
        self._session = claimer.session
        self._buffer = buffer
        self._leases = leases
        self._slots = slots
        self._poll_interval = poll_interval
        self._listens = listens
        self._settler = settler
        self._wakeups = wakeups
        self._listener = ClaimListener(
            self.hear, wakeups.fetcher.wakeup, on_cancel=self.hear_cancel
        )
        self._has_heard_cancel = False
        self._idle = Idle(poll_interval)
        self._payload_size = 1
        self.is_idle = False
        self.found_at = time.monotonic()
        self.claims = 0
        self.claimed = 0

    def hear(self, notification: str) -> bool:
        """Process a notification; return whether to claim now."""
        if notification == DUE_EARLIER:
            self._wakeups.wake_promoter()
            return False
        serves = self._claimer.serves(notification)
        if serves:
            self._claimer.expect(notification)
        return serves

    def hear_cancel(self, worker_id: str) -> None:
        """Process a request to cancel a running message of this worker, or of another one."""
        if self._claimer.is_own(worker_id):
            self._has_heard_cancel = True
            self._wakeups.heartbeat.request_look()

    def rest(self, nap: timedelta) -> None:
        """Nap until woken or notified, `nap` at most."""
        self._listener.wait(min(nap.total_seconds(), self._buffer.due_in()))

    def wake(self) -> None:
        """End the nap."""
        self._wakeups.fetcher.wake()

    def tick(self) -> timedelta:
        """Claim once; return the nap, which depends on the claimed messages and the room."""
        self._buffer.flush()
        # First announce, then look: so the fetcher does not miss room that is made meanwhile.
        wakeup = self._wakeups.fetcher
        wakeup.waits_for_room = True
        room = self._room()
        wakeup.waits_for_room = room <= 0 or not self._settler.is_connected
        if wakeup.waits_for_room:
            return self._wait_for_room()
        limit = min(room, BATCH)
        is_listening = self._listens and self._listener.listen(self._claimer.connect().connection)
        claimed = self._claimer.claim(limit, thoroughly=False)
        self.claims += 1
        self.claimed += len(claimed)
        self._hold(claimed)
        if not claimed and wakeup.is_set():
            return self._poll_interval  # the nap ends as it begins
        if not claimed:
            return self._wait(is_listening=is_listening)
        now = self.found_at = time.monotonic()
        self.is_idle = False
        self._idle.found(now, is_full=len(claimed) >= limit)
        if self._claimer.wants_notice and self._idle.should_withdraw(now):
            self._claimer.want_notice(False)
            self._idle.withdrew(now)
        return NO_NAP

    def _wait_for_room(self) -> timedelta:
        if not len(self._buffer):
            return self._poll_interval
        for leased in self._buffer.stale():
            self._give_back(leased)
        return min(self._poll_interval, LOOK_FOR_STALE)

    def _give_back(self, leased: LeasedMessage) -> None:
        self._settler.put(leased, HandedBack())

    def _room(self) -> int:
        fitting = max(1, PAYLOADS // self._payload_size)
        wanted = self._buffer.room(fitting)
        # Leased messages outside of the buffer run, or wait for the settler. While settles are
        # slow, more claims would only pile them up. The settler wakes this thread.
        return min(wanted, min(LEASED, 2 * fitting) + self._slots - len(self._leases))

    def _hold(self, claimed: Sequence[Claimed]) -> None:
        leased = [LeasedMessage(*each) for each in claimed]
        sizes = [each.size for each in claimed]
        self._leases.add(leased)
        if self._has_heard_cancel:
            # The request may have come with an answer to this claim, and may concern its messages:
            # the heartbeat did not see their leases then.
            self._has_heard_cancel = False
            self._wakeups.heartbeat.request_look()
        if self._stopping.is_set():
            # The claim's answer came late: the buffer is closed.
            for each in leased:
                self._give_back(each)
            return
        self._buffer.put(leased)
        if leased:
            self._payload_size = max(1, sum(sizes) // len(sizes), self._payload_size // 2)

    def _wait(self, *, is_listening: bool) -> timedelta:
        """Ask for notifications if enough claims were empty; return the nap."""
        self._idle.found_nothing()
        if is_listening and not self._claimer.wants_notice and self._idle.should_ask():
            self._claimer.want_notice(True)
            self._idle.asked()
            return NO_NAP  # and claim once more: from now on producers see the wish
        self.is_idle = True
        return self._idle.next_nap(is_listening=is_listening, wake_in=self._claimer.wake_in)

    def finish(self) -> None:
        """Close the connection."""
        self._session.close()
        self._listener.close()
