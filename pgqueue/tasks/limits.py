"""What bounds a run in time."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from pgqueue.exceptions import TaskTimeout


class TimeLimit(NamedTuple):
    """An error that is raised in a run that takes too long.

    Attributes:
        after: the time that the run may take.
        error: what is raised then.
        is_final: its lease is not renewed any more, so that others may run the message. Only the
            last limit of a run takes the lease away.
    """

    after: timedelta
    error: type[TaskTimeout] = TaskTimeout
    is_final: bool = True
