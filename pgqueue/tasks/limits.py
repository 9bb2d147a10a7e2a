"""The time limits of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from pgqueue.exceptions import TaskTimeout


class TimeLimit(NamedTuple):
    """An error that is raised in a run that takes too long.

    Attributes:
        after: the time that the run may take.
        error: the class of the error that is raised then.
        is_final: whether the lease is no longer renewed then, so that others may run the message.
    """

    after: timedelta
    error: type[TaskTimeout] = TaskTimeout
    is_final: bool = True
