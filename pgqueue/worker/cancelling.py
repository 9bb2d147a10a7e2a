"""Cancel the coroutine of a message after a request. Tasks on threads check their context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from pgqueue.worker.leases import LeasedMessage


def cancellable(
    leased: LeasedMessage, function: Callable[..., Coroutine[Any, Any, Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that is cancelled on request.

    It is cancelled only once, even if further heartbeats repeat the request: its clean-up is not
    interrupted.
    """

    async def bounded(*args: Any, **kwargs: Any) -> Any:
        interrupt = _interrupt()
        leased.interrupt = interrupt
        if leased.cancelled:
            interrupt()
        try:
            return await function(*args, **kwargs)
        finally:
            leased.interrupt = None

    return bounded


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
