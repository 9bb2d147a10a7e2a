"""Messages that a full channel drops: of its policy, `on_full="drop"`."""

from __future__ import annotations

from typing import Any

from pgqueue.exceptions import ChannelFull
from pgqueue.tasks.result import TaskResult


def refuse_dropped(channel: str, *results: TaskResult[Any]) -> None:
    """Raise an error if one of the messages was dropped: here it would be lost in silence.

    Raises:
        ChannelFull: one was.
    """
    if any(each.came_of == "dropped" for each in results):
        raise ChannelFull(f"The channel {channel!r} is full, and drops further messages.")
