"""Cancel the coroutine of a message after a request. Tasks on threads check their context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pgqueue.worker.leases import LeasedMessage


class Cancellable:
    """Lets a request cancel the coroutine that runs in the block.

    It is cancelled only once, even if further heartbeats repeat the request: its clean-up is not
    interrupted.
    """

    __slots__ = ("_leased",)

    def __init__(self, leased: LeasedMessage) -> None:
        self._leased = leased

    def __enter__(self) -> None:
        self._leased.interrupt = interrupt = _interrupt()
        if self._leased.cancelled:
            interrupt()

    def __exit__(self, *raised: object) -> None:
        self._leased.interrupt = None


def _interrupt() -> Callable[[], None]:
    """Return a function that cancels the current coroutine. Any thread may call it."""
    loop = asyncio.get_running_loop()
    coroutine = asyncio.current_task(loop)
    asked: list[bool] = []

    def cancel() -> None:
        if coroutine and not asked:
            asked.append(True)
            coroutine.cancel()

    def interrupt() -> None:
        with suppress(RuntimeError):  # its loop was closed meanwhile
            loop.call_soon_threadsafe(cancel)

    return interrupt
