"""Report the stack of the event loop while one of its tasks blocks all others."""

from __future__ import annotations

from datetime import timedelta

from pgqueue import signals
from pgqueue.threads.service import Service
from pgqueue.worker.eventloop import EventLoop

EVERY = timedelta(seconds=1)
LOOKS = 10
"""Looks in a row that find the loop at the same turn. After a SIGSTOP, one look alone may do so."""


class LoopWatch(Service):
    """Checks an event loop once a second. It ends nothing: tasks on threads go on."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0
        self._in_vain = 0

    @property
    def blocked_for(self) -> float:
        """Seconds for which the loop has been blocked; 0: it is not blocked."""
        return self._in_vain * EVERY.total_seconds() if self._in_vain >= LOOKS else 0.0

    def tick(self) -> timedelta:
        """Look once; report a blocked loop once until it goes on."""
        turns = self._loop.turns
        self._in_vain = self._in_vain + 1 if turns == self._turns else 0
        self._turns = turns
        if self._in_vain == LOOKS and (stack := self._loop.stack()):
            signals.send(signals.loop_blocked, type(self), stack=stack)
        return EVERY
