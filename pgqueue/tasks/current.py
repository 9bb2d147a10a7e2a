"""The run that is under way in this thread or coroutine."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from pgqueue.engine.values import Claim
from pgqueue.tasks.declaration import Declaration


class CurrentRun(Protocol):
    """A run of a message.

    Attributes:
        task: the message's task.
        claim: the message as it was claimed.
        database: the alias of the database that the message is in.
    """

    task: Declaration[Any, Any]
    claim: Claim
    database: str


running: ContextVar[CurrentRun | None] = ContextVar("running", default=None)


def running_in(database: str) -> int | None:
    """Return the id of the message whose run is under way; None: none is in this database."""
    run = running.get()
    return run.claim.id if run and run.database == database else None
