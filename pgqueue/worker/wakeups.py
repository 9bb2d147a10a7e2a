"""Wake the services to which others give work: the fetcher, the duties, and the heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgqueue.duties.service import Duties
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.threads.wakeup import Nudge, Wakeup


class FetcherWakeup:
    """Ends the fetcher's nap. Any thread may call its methods, also after the close.

    It is made before the fetcher: the buffers and the settler, to which the fetcher hands messages,
    wake the fetcher in turn.
    """

    def __init__(self) -> None:
        self.wakeup = Wakeup()
        self.waits_for_room = False
        """Whether the fetcher naps until there is room in the buffer."""

    def wake(self) -> None:
        """End the nap, or the next one."""
        self.wakeup.set()

    def is_set(self) -> bool:
        """Return whether the next nap will end at once."""
        return self.wakeup.is_set

    def make_room(self) -> None:
        """End the nap if the fetcher waits for room in the buffer."""
        if self.waits_for_room:
            self.wakeup.set()

    def close(self) -> None:
        """Close the wake-up: no further call ends a nap."""
        self.wakeup.close()


class HeartbeatWakeup:
    """Has the heartbeat look which runs it must cancel. Any thread may call its methods.

    It is made before the heartbeat: the fetcher, which hears of requests to cancel, is made first.
    """

    def __init__(self) -> None:
        self.nudge = Nudge()
        """Ends the nap of the heartbeat."""
        self._is_requested = False

    def request_look(self) -> None:
        """End the heartbeat's nap, or the next one, for a look."""
        self._is_requested = True
        self.nudge.set()

    def take_request(self) -> bool:
        """Return whether a look was requested since the last call."""
        is_requested, self._is_requested = self._is_requested, False
        return is_requested


@dataclass(frozen=True)
class Wakeups:
    """The services that the end of a run, or a notification, may wake.

    Args:
        fetcher: claims more messages when there is room, or when a flow's message has ended.
        duties: promote delayed messages; None: this worker does no duties.
        heartbeat: looks for requests to cancel when one was notified.
    """

    fetcher: FetcherWakeup
    duties: Duties | None = None
    heartbeat: HeartbeatWakeup = field(default_factory=HeartbeatWakeup)

    def wake_promoter(self) -> None:
        """Have the duties promote now: a message has got a due time, here or elsewhere."""
        if self.duties:
            self.duties.look_early()

    def hear(self, notification: str | None) -> None:
        """Process a notification, or None if notifications may have been missed."""
        if notification in (DUE_EARLIER, None):
            self.wake_promoter()
