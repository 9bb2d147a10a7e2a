"""Handlers that say what they were given by messages."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from pgqueue import Rebuild, RecordedEvent, consumer, send
from pgqueue.models import Message


@consumer("command.first", topics="a", start="beginning")
def first(event: RecordedEvent) -> None:
    """Say it."""
    send("seen", payload=event.payload)


@consumer("command.second", topics="a", start="beginning")
def second(event: RecordedEvent) -> None:
    """Say nothing."""


@consumer("command.slow", topics="slow", start="beginning")
def slow(event: RecordedEvent) -> None:
    """Say it, and take 10 ms."""
    send("seen", payload=event.payload)
    threading.Event().wait(0.01)


@consumer("command.killed", topics="kill.*", start="beginning")
def killed(event: RecordedEvent) -> None:
    """Say it, or end the process."""
    if event.payload == "kill":
        os._exit(9)
    send("seen", payload=event.payload)


@consumer("command.exits", topics="exit", start="beginning", max_attempts=1)
def exits(event: RecordedEvent) -> None:
    """Want to end the process."""
    raise SystemExit(0)


def _fork(event: RecordedEvent) -> bool:
    """Say how a child has ended that is told to return or to raise; return whether this is it."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        send("forked", payload=[event.payload, status])
    elif event.payload == "raise":
        raise ValueError("in the child")
    return not child


@consumer("command.forking", topics="fork", start="beginning")
def fork(event: RecordedEvent) -> None:
    """Fork for each event."""
    _fork(event)


@consumer("command.forking.many", topics="fork.many", start="beginning", batch=10, atomic=True)
def fork_for_many(events: Sequence[RecordedEvent]) -> None:
    """Fork in a transaction."""
    for event in events:
        if _fork(event):
            return


def _empty() -> None:
    Message.objects.filter(channel="next").delete()


def _swap() -> None:
    Message.objects.filter(channel="live").update(channel="old")
    Message.objects.filter(channel="next").update(channel="live")


@consumer(
    "command.rebuilt",
    topics="rebuilt",
    start="beginning",
    atomic=True,
    rebuild=Rebuild(begin=_empty, hand_over=_swap),
)
def rebuilt(event: RecordedEvent) -> None:
    """Say it, or end the process while the group is rebuilt."""
    if rebuilt.is_rebuilding and event.payload == 5 and "ENDS_A_REBUILD" in os.environ:
        os._exit(9)
    send("next" if rebuilt.is_rebuilding else "live", payload=event.payload)
