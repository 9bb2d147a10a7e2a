"""The result of a task that ran in the place of its call."""

from __future__ import annotations

from typing import Any

from pgqueue.compat.celery.async_result import AsyncResult


class EagerResult(AsyncResult):
    """The result of a task that ran in the place of its call."""

    def __init__(self, id: str, value: Any, state: str, *, traceback: str | None = None) -> None:
        super().__init__(id)
        self._value = value
        self._state = state
        self._traceback = traceback

    def __repr__(self) -> str:
        return f"<EagerResult: {self.id}>"

    @property
    def state(self) -> str:
        """One of `states`."""
        return self._state

    @property
    def result(self) -> Any:
        """The return value of the task, or its error."""
        return self._value

    @property
    def children(self) -> list[AsyncResult]:
        """An empty list: no message was stored."""
        return []

    @property
    def traceback(self) -> str | None:
        """The traceback of its error."""
        return self._traceback

    def ready(self) -> bool:
        """Return True: the task has ended."""
        return True

    def get(
        self,
        timeout: Any = None,
        propagate: bool = True,
        *args: Any,
        **others: Any,
    ) -> Any:
        """Return the task's return value; raise its error if `propagate` is true."""
        return self.maybe_throw(propagate)

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: it has ended."""
