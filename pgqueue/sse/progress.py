"""The progress of single messages, for the pages that show them.

One thread reads all messages that pages of this process show, in one statement: often while the
messages change, and twice a second at least. A notification announces the end of a message
(`tasks.waiting`), and wakes the thread.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from functools import partial
from typing import Any

from pgqueue.codec.envelope import is_envelope
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import wait
from pgqueue.engine.wait import MessageSnapshot
from pgqueue.states import Outcome, State
from pgqueue.streams import wire
from pgqueue.streams.client import Client
from pgqueue.streams.source import LINGER, StreamSource
from pgqueue.tasks import waiting
from pgqueue.threads.service import NO_NAP

SHORTEST_NAP = timedelta(milliseconds=10)
LONGEST_NAP = timedelta(seconds=0.5)
ENDED = "ended"
"""The last event and its id. A browser that sends this id again gets 204, and stops."""
ENDS = {State.DEAD.value, *Outcome.values}
GONE = "gone"
"""The status of a message that is neither live nor in history: retention has removed it."""


class MessageClient(Client):
    """A stream of the progress of a message.

    Attributes:
        id: the message's id.
        seen: the message's state at the last event for the page.
    """

    __slots__ = ("_ended", "_progress", "id", "seen")

    def __init__(self, id: int) -> None:
        super().__init__()
        self.id = id
        self.seen: MessageSnapshot | None = None
        self._progress: ProgressFeed | None = None
        self._ended: waiting.Promise | None = None

    def join(self, alias: str) -> None:
        """Join the source, until `leave()`."""
        self._ended = waiting.ended(alias, self.id)
        self._progress = ProgressFeed.serve(alias, self)
        self._ended.add_done_callback(partial(_wake, self._progress))

    def leave(self) -> None:
        """Leave the source."""
        if self._ended:
            self._ended.cancel()
        if self._progress:
            self._progress.leave(self)

    def beat(self) -> bytes:
        """Return a heartbeat: an empty comment."""
        return wire.comment("")

    def tell(self, blocks: bytes, is_last: bool) -> None:
        """Send some events; end the stream behind the last one."""
        if self.has_begun:
            self.push(blocks)
        else:
            self.begin(blocks)
        if is_last:
            self.end()


def _wake(progress: ProgressFeed, promise: object) -> None:
    progress.wake()


class ProgressFeed(StreamSource[MessageClient]):
    """Reads all messages that pages of this process show."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.name = "sse progress"
        self._clients: set[MessageClient] = set()
        self._nap = SHORTEST_NAP

    def tick(self) -> timedelta:
        """Send the new events to the pages; return the time until the next tick."""
        if self.has_ended():
            return NO_NAP
        with self._lock:
            if self._coming:
                self._nap = SHORTEST_NAP
            self._clients.update(self._coming)
            self._coming.clear()
            clients = list(self._clients)
        if not clients:
            return LINGER / 2
        if self._look(clients):
            self._nap = SHORTEST_NAP
        nap = self._nap
        self._nap = min(2 * nap, LONGEST_NAP)
        return nap

    def _look(self, clients: list[MessageClient]) -> bool:
        """Read the clients' messages; return whether a message has changed."""
        alias = self._session.alias
        with needing_tables(alias):
            found = wait.look(self._session.connection, {client.id for client in clients})
        has_happened = False
        for client in clients:
            now = found.get(client.id) or MessageSnapshot(client.id, GONE, 0, 0, None, None)
            events = changes(client.seen, now)
            client.seen = now
            if events:
                has_happened = True
                blocks = b"".join(block(event, now) for event in events)
                self.tell(client.loop, partial(client.tell, blocks, is_end(now)))
            if is_end(now):
                self.leave(client)
        return has_happened

    def _forget(self, client: MessageClient) -> None:
        self._clients.discard(client)

    def _is_unused(self) -> bool:
        return not self._clients

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[MessageClient]:
        return [client for client in self._clients if client.loop is loop]


def is_end(seen: MessageSnapshot) -> bool:
    """Return whether the message has ended. Only a replay changes it then."""
    return seen.state in ENDS or seen.state == GONE


def changes(before: MessageSnapshot | None, now: MessageSnapshot) -> list[str]:
    """Return the names of the events between two reads of a message, in order.

    If several runs happen between two reads, only the last run has events.
    """
    if before is None:
        began = "started" if now.state == State.RUNNING else "waiting"
        return [ENDED] if is_end(now) else [began]
    if before == now:
        return []
    events = _runs(before, now)
    if now.progress != before.progress:
        events.append("progress")
    if is_end(now):
        events.append(ENDED)
    return events


def _runs(before: MessageSnapshot, now: MessageSnapshot) -> list[str]:
    """Return the events of the last run between two reads."""
    # The last failure of a dead message has no retry behind it.
    failed = now.failures - before.failures - (now.state == State.DEAD) > 0
    started = now.attempt > before.attempt
    runs_or_ended = now.state == State.RUNNING or is_end(now)
    if failed and started:
        return ["retried", "started"] if runs_or_ended else ["started", "retried"]
    if failed:
        return ["retried"]
    if started:
        return ["started"]
    return ["waiting"] if before.state == State.RUNNING and not runs_or_ended else []


def block(event: str, now: MessageSnapshot) -> bytes:
    """Return an event of a message as a block of the stream."""
    told: dict[str, Any] = {
        "id": str(now.id),
        "status": now.state,
        "attempt": now.attempt,
        "failures": now.failures,
        "progress": _plain(now.progress),
    }
    if event == ENDED:
        told["result"] = _plain(now.result)
    return wire.block(json.dumps(told), event=event, id=ENDED if event == ENDED else now.attempt)


def _plain(text: str | None) -> Any:
    """Return stored JSON as a value; None if it is encrypted, because that stays on the server."""
    return json.loads("null" if text is None or is_envelope(text) else text)
