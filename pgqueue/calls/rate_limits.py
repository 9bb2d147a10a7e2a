"""A run that ends because a service said wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pgqueue.exceptions import Defer
from pgqueue.values.number_checks import as_age


class RateLimited(Defer):
    """The task was told to wait, and other messages must wait with it.

    The message is deferred, as by `Defer`: this is not a failure. In the same transaction its
    channel, key or task is paused for this time, for all workers. No claim that begins after the
    commit takes a message of the scope before the end. A message that a worker has claimed before
    still runs. A pause that lasts longer stays as it is.

    Args:
        retry_after: seconds or a timedelta to wait; 0: the message runs again, without a pause.
        progress: the next run finds it in `context.progress`; None: unchanged.
        scope: the messages that wait: "channel", its whole channel; "key", the channel's
            messages with the same key; or "task", messages with the same task in all channels. For
            "key" the message must have a key, or the run fails.

    Raises:
        TypeError: retry_after is neither seconds nor a timedelta.
        ValueError: retry_after is below 0, or longer than a hundred years; scope is no scope.
    """

    def __init__(
        self,
        retry_after: float | timedelta = 0,
        progress: Any = None,
        *,
        scope: Literal["channel", "key", "task"] = "channel",
    ) -> None:
        super().__init__(as_age(retry_after), progress)
        if scope not in ("channel", "key", "task"):
            raise ValueError(f"scope={scope!r}: it must be channel, key or task.")
        self.scope = scope
