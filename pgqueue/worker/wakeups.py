"""Wake the services that the ends of runs give work to: the fetcher, and the duties."""

from __future__ import annotations

from dataclasses import dataclass

from pgqueue.duties.service import Duties
from pgqueue.engine.notifications import DUE_EARLIER
from pgqueue.threads.wakeup import Wakeup


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

    def make_room(self) -> None:
        """End the nap if the fetcher waits for room in the buffer."""
        if self.waits_for_room:
            self.wakeup.set()

    def close(self) -> None:
        """Close the wake-up: no further call ends a nap."""
        self.wakeup.close()


@dataclass(frozen=True)
class Wakeups:
    """The services that the end of a run may wake.

    Args:
        fetcher: claims more messages when there is room, or when a flow's message has ended.
        duties: promote delayed messages; None: this worker does no duties.
    """

    fetcher: FetcherWakeup
    duties: Duties | None = None

    def wake_promoter(self) -> None:
        """Have the duties promote now: a message has got a due time, here or elsewhere."""
        if self.duties:
            self.duties.look_early()

    def hear(self, notification: str | None) -> None:
        """Process a notification, or None if notifications may have been missed."""
        if notification in (DUE_EARLIER, None):
            self.wake_promoter()
