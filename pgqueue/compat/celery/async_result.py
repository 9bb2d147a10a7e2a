"""The result of a task, with Celery's interface."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import Any, NoReturn

from django.db import connections

from pgqueue.compat.celery import current, states
from pgqueue.compat.celery.exceptions import (
    Ignore,
    IncompleteStream,
    TaskRevokedError,
    Unsupported,
)
from pgqueue.compat.celery.raised_errors import as_raised
from pgqueue.compat.celery.request import running_task
from pgqueue.compat.celery.result_messages import arguments_of, message_of, replacing
from pgqueue.database.migration_check import needing_tables
from pgqueue.database.sql_files import load
from pgqueue.exceptions import (
    TaskFailed,
    TaskResultDoesNotExist,
)
from pgqueue.states import Outcome, State
from pgqueue.tasks import (
    TaskResult,
    registry,
)
from pgqueue.values.number_checks import as_timedelta

SQL = load(__name__)

UNENDED = states.UNREADY_STATES - {states.REJECTED}

_joining: ContextVar[bool] = ContextVar("joining", default=False)

ENDED: dict[Any, str] = {
    Outcome.SUCCEEDED: states.SUCCESS,
    Outcome.DISCARDED: states.IGNORED,
    Outcome.CANCELLED: states.REVOKED,
    Outcome.EXPIRED: states.REVOKED,
    State.DEAD: states.FAILURE,
}
REVOKED: dict[Any, str] = {Outcome.CANCELLED: "revoked", Outcome.EXPIRED: "expired"}
"""Celery's words for the outcomes of a revoked message."""
NOTED = (State.RUNNING, Outcome.DISCARDED)
"""States in which the task's own state is shown. As in Celery, `Ignore` leaves it unchanged."""


class AsyncResult:
    """A message, by its task_id or number. Each access asks the database until the message ends.

    Args:
        number: the message's number, if the id is a task_id that may be forgotten.

    Attributes:
        parent: the result of the step before it in a chain. Only the result that the chain's
            `apply_async` returned has one.

    Raises:
        UnknownTask: (its methods) this process does not know the message's task.
    """

    def __init__(
        self,
        id: Any,
        *,
        stored: TaskResult[Any] | None = None,
        number: int | None = None,
        parent: Any = None,
        **others: Any,
    ) -> None:
        self.id = str(id)
        self.parent = parent
        self._found = stored
        self._known = self.id if number is None else str(number)

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __str__(self) -> str:
        return self.id

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, AsyncResult) and other.id == self.id) or other == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def task_id(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def given_id(self) -> str:
        """The task_id that the producer gave; without one, the message's number."""
        found = self._looked()
        if found is None:
            return self.id
        with needing_tables(found.task.alias), connections[found.task.alias].cursor() as cursor:
            cursor.execute(SQL["given"], {"id": int(found.id)})
            row = cursor.fetchone()
        return str(row[0]) if row and row[0] else str(found.id)

    @property
    def state(self) -> str:
        """One of `states`, or the task's own by `update_state()`; PENDING if it is unknown."""
        found = self._looked()
        if found is None:
            return states.PENDING
        if found.status in NOTED and (noted := self._noted(found)):
            return str(noted["state"])
        if found.is_finished:
            return ENDED[found.status]
        if found.status is State.RUNNING:
            return self._running(found)
        return states.RETRY if found.failures else states.PENDING

    @property
    def status(self) -> str:
        """The same as `state`."""
        return self.state

    @property
    def result(self) -> Any:
        """The return value of the task, or its last error.

        While the task runs, and after `Ignore`: the last meta of `update_state()`.
        """
        found = self._looked()
        if found is None:
            return None
        if found.status is Outcome.SUCCEEDED:
            return found.return_value
        if found.status in NOTED and (noted := self._noted(found)):
            return noted["meta"]
        if found.status is State.RUNNING:
            return None
        if found.status in REVOKED:
            return TaskRevokedError(REVOKED[found.status])
        if found.status is Outcome.DISCARDED:
            return Ignore(found.errors[-1].message) if found.errors else Ignore()
        return as_raised(found.errors[-1]) if found.errors else None

    @property
    def info(self) -> Any:
        """The same as `result`."""
        return self.result

    @property
    def traceback(self) -> str | None:
        """The traceback of its last error; None if it has succeeded."""
        found = self._looked()
        if found is None or not found.errors or found.status is Outcome.SUCCEEDED:
            return None
        return found.errors[-1].traceback

    @property
    def name(self) -> str | None:
        """The task's name."""
        found = self._looked()
        return found.task.name if found else None

    @property
    def args(self) -> Any:
        """The positional arguments, with results in the place of references to them."""
        found = self._looked()
        return list(arguments_of(found)[0]) if found else None

    @property
    def kwargs(self) -> Any:
        """The named arguments."""
        found = self._looked()
        return arguments_of(found)[1] if found else None

    @property
    def retries(self) -> int | None:
        """The number of retries so far."""
        found = self._looked()
        return None if found is None else found.failures - (found.status is State.DEAD)

    @property
    def queue(self) -> str | None:
        """The channel of its task."""
        found = self._looked()
        return found.task.queue_name if found else None

    @property
    def date_done(self) -> datetime | None:
        """The instant of its end."""
        found = self._looked()
        return found.finished_at if found else None

    @property
    def children(self) -> list[AsyncResult]:
        """The results of its linked messages and of the next step of its chain."""
        found = self._looked()
        if found is None:
            return []
        alias = found.task.alias
        with needing_tables(alias), connections[alias].cursor() as cursor:
            cursor.execute(SQL["children"], {"id": int(found.id)})
            rows = cursor.fetchall()
        return [AsyncResult(id) for id, task in rows if hasattr(registry.find(task), "origin")]

    def collect(
        self, intermediate: bool = False, **options: Any
    ) -> Iterator[tuple[AsyncResult, Any]]:
        """Yield this result and its value, then each later result and its value."""
        for _, result in self.iterdeps(intermediate):
            yield result, result.get(**options)

    def get_leaf(self) -> Any:
        """Return the value of the last message that follows it."""
        return [value for _, value in self.collect()][-1]

    def iterdeps(
        self, intermediate: bool = False
    ) -> Iterator[tuple[AsyncResult | None, AsyncResult]]:
        """Yield pairs of a parent and a result: this result first, then the results after it.

        Args:
            intermediate: go on behind a message that has not ended.

        Raises:
            IncompleteStream: a message has not ended.
        """
        rest: deque[tuple[AsyncResult | None, AsyncResult]] = deque([(None, self)])
        seen = {self.id}
        while rest:
            yield rest[0]
            _, first = rest.popleft()
            if not intermediate and not first.ready():
                raise IncompleteStream(f"{first.id} has not ended.")
            for child in first.children:
                if child.id not in seen:
                    seen.add(child.id)
                    rest.append((first, child))

    def as_tuple(self) -> tuple[Any, None]:
        """Return its id and its parents' ids, from which `result_from_tuple` makes a result."""
        steps, before = [], self.parent
        while isinstance(before, AsyncResult):
            steps.append(before)
            before = before.parent
        known = None if before is None else before.as_tuple()
        for each in reversed(steps):
            known = (each.id, known), None
        return (self.id, known), None

    def as_list(self) -> list[str]:
        """Return its id and its parents' ids."""
        ids: list[str] = []
        for each in (self, *self._parents()):
            if not isinstance(each, AsyncResult):
                return [*ids, *each.as_list()]
            ids.append(each.id)
        return ids

    def then(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported(
            "then(): link=… makes a task follow it; get(callback=…) waits, and calls a function."
        )

    @property
    def graph(self) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported("graph: the admin draws flows.")

    def ready(self) -> bool:
        """Say whether the message has ended for good, without another retry."""
        found = self._looked()
        return found is not None and found.is_finished

    def successful(self) -> bool:
        """Say whether it succeeded."""
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        """Say whether the message failed for good, as a dead letter."""
        return self.state == states.FAILURE

    def get(
        self,
        timeout: float | timedelta | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        no_ack: bool = True,
        follow_parents: bool = True,
        callback: Any = None,
        on_message: Any = None,
        on_interval: Any = None,
        disable_sync_subtasks: bool = True,
        **others: Any,
    ) -> Any:
        """Wait for the end of the message; return the task's return value.

        Args:
            timeout: seconds or a timedelta.
            propagate: raise the task's error; otherwise, return the error.
            callback: called with the id and the value.
            follow_parents: raise the error of an earlier step of its chain, too.
            interval, no_ack, on_interval: without effect: a notification announces the end.

        Raises:
            TimeoutError: the message has not ended in this time.
            TaskRevokedError: the message was cancelled, or has expired.
            Ignore: the message was discarded.
            TaskResultDoesNotExist: the message does not exist, or not yet.
            RuntimeError: the call is inside a task; the other task may have no thread to run in.
        """
        if on_message is not None:
            raise Unsupported(
                "get(on_message=…): read state and info again, or stream its progress: "
                "pgqueue.sse.message_stream()."
            )
        if disable_sync_subtasks:
            assert_will_not_block()
        found = self._looked()
        if found is None:
            raise TaskResultDoesNotExist(f"No message has the id {self.id!r}, or not yet.")
        self._wait(found, timeout)
        if propagate and follow_parents and self.state not in (states.SUCCESS, *UNENDED):
            for parent in reversed(list(self._parents())):
                parent.maybe_throw()
        if callback is not None:
            callback(self.id, self.result)
        if propagate:
            self.maybe_throw()
        return self.result

    def _get_task_meta(self) -> dict[str, Any]:
        """Return the state, the result and the traceback as a dict, for other packages."""
        return {
            "task_id": self.id,
            "status": self.state,
            "result": self.result,
            "traceback": self.traceback,
        }

    def _wait(self, found: TaskResult[Any], timeout: float | timedelta | None) -> None:
        """Wait until it has ended."""
        if found.is_finished:
            return
        until = inf if timeout is None else monotonic() + as_timedelta(timeout).total_seconds()
        while True:
            left = until - monotonic()
            found.wait(None if left == inf else max(left, 0))
            again = self._looked()
            if again is None or again.is_finished:
                return
            found = again  # may be the message that replaced it

    def _parents(self) -> Iterator[Any]:
        """Yield the results of the earlier steps of its chain, the nearest first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    def wait(self, timeout: float | None = None, **options: Any) -> Any:
        """Do what `get()` does."""
        return self.get(timeout, **options)

    def maybe_throw(self, propagate: bool = True) -> Any:
        """Return its result; raise its error if it has failed or was revoked."""
        state, result = self.state, self.result
        if propagate and state in states.PROPAGATE_STATES:
            raise result if isinstance(result, BaseException) else TaskFailed(str(result))
        if propagate and state == states.IGNORED:
            raise result if isinstance(result, Ignore) else Ignore(str(result))
        return result

    maybe_reraise = maybe_throw

    def revoke(
        self,
        connection: Any = None,
        terminate: bool = False,
        signal: Any = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Cancel the message in the open transaction; a running task is asked to end.

        Args:
            terminate, signal, wait, timeout: without effect: the worker interrupts coroutines,
                and sets `context.cancelled` for other tasks.
        """
        if (found := self._looked()) is not None:
            found.cancel()

    def forget(self) -> None:
        """Do nothing: PGQUEUE["RETENTION"] removes results with the history."""

    def _running(self, found: TaskResult[Any]) -> str:
        own: Any = found.task
        task = getattr(own, "origin", None)
        tracked = getattr(task, "track_started", None)
        tracked = current.conf().task_track_started if tracked is None else tracked
        return states.STARTED if tracked else states.PENDING

    def _noted(self, found: TaskResult[Any]) -> Any:
        """Return the last state and meta of `update_state()`."""
        noted = found.progress
        return noted if isinstance(noted, dict) and noted.keys() == {"state", "meta"} else None

    def _looked(self) -> TaskResult[Any] | None:
        """Read the message again, unless its end is known; None: there is no message."""
        try:
            if self._found is None:
                self._found = message_of(self._known)
            elif not self._found.is_finished or not self._found.finished_at:
                self._found.refresh()
            while (other := replacing(self._found)) is not None:
                self._found = message_of(other)
        except TaskResultDoesNotExist:
            return None
        return self._found


def assert_will_not_block() -> None:
    """Refuse to wait for another task inside a task.

    Raises:
        RuntimeError: the call is inside a task, and outside of `allow_join_result()`.
    """
    if running_task() is not None and not _joining.get():
        raise RuntimeError(
            "Never call result.get() within a task: all threads may wait for tasks that have none. "
            "Enqueue the next task instead; or get(disable_sync_subtasks=False)."
        )


@contextmanager
def allow_join_result() -> Iterator[None]:
    """Allow a task to wait for another task inside this block."""
    token = _joining.set(True)
    try:
        yield
    finally:
        _joining.reset(token)
