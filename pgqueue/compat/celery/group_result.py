"""The results of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any, NoReturn

from django.db import connections

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.utils import uuid
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.database.sql_files import load
from pgqueue.engine.lookup import id_of
from pgqueue.values.number_checks import as_timedelta

SQL = load(__name__)


class ResultSet:
    """Several results."""

    def __init__(self, results: Iterable[Any], **others: Any) -> None:
        self.results = list(results)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: [{', '.join(each.id for each in self.results)}]>"

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getitem__(self, number: int) -> Any:
        return self.results[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultSet) and other.results == self.results

    __hash__ = None  # type: ignore[assignment]

    @property
    def children(self) -> list[Any]:
        """The results."""
        return self.results

    def add(self, result: Any) -> None:
        """Add a result, if it is not there yet."""
        if result not in self.results:
            self.results.append(result)

    def update(self, results: Iterable[Any]) -> None:
        """Add the results that are not there yet."""
        for each in results:
            self.add(each)

    def remove(self, result: Any) -> None:
        """Remove a result, given as the object or its id.

        Raises:
            KeyError: the result is not there.
        """
        try:
            self.results.remove(result)
        except ValueError as error:
            raise KeyError(result) from error

    def discard(self, result: Any) -> None:
        """Remove a result, given as the object or its id, if it is there."""
        self.results = [each for each in self.results if each != result]

    def clear(self) -> None:
        """Remove all results."""
        self.results.clear()

    def ready(self) -> bool:
        """Say whether all have ended."""
        return all(each.ready() for each in self.results)

    def waiting(self) -> bool:
        """Say whether one has not ended."""
        return not self.ready()

    def successful(self) -> bool:
        """Say whether all succeeded."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Say whether one has failed for good."""
        return any(each.failed() for each in self.results)

    def completed_count(self) -> int:
        """Return the number of tasks that have succeeded."""
        return sum(each.successful() for each in self.results)

    def get(
        self,
        timeout: float | timedelta | None = None,
        propagate: bool = True,
        callback: Any = None,
        **options: Any,
    ) -> list[Any]:
        """Wait until all have ended; return their return values, in order.

        Args:
            timeout: seconds or a timedelta, for all together.
            propagate: raise the first error; otherwise, return errors in the list.
            callback: called with the id and the value of each; the list is then empty.
            options: options of `AsyncResult.get`.

        Raises:
            TimeoutError: a message has not ended in this time.
        """
        until = monotonic() + (inf if timeout is None else as_timedelta(timeout).total_seconds())
        values = []
        for each in self.results:
            left = None if until == inf else max(until - monotonic(), 0)
            value = each.get(left, propagate=propagate, **options)
            if callback is None:
                values.append(value)
            else:
                callback(each.id, value)
        return values

    join = join_native = get

    def iterate(self, **options: Any) -> Iterator[Any]:
        """Wait for each result, and yield its return value."""
        for each in self.results:
            yield each.get(**options)

    def maybe_throw(self, **options: Any) -> None:
        """Raise the first error, if a task has failed."""
        for each in self.results:
            each.maybe_throw(**options)

    maybe_reraise = maybe_throw

    def revoke(self, **options: Any) -> None:
        """Cancel all."""
        for each in self.results:
            each.revoke(**options)

    def then(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported(
            "then(): the body of a chord follows all; get(callback=…) waits, and calls a function."
        )

    def forget(self) -> None:
        """Do nothing: PGQUEUE["RETENTION"] removes results with the history."""


class GroupResult(ResultSet):
    """The results of a group.

    Attributes:
        id: the id for `restore()`.
        parent: the result of the step before it in a chain.
    """

    def __init__(
        self, id: str | None = None, results: Iterable[Any] = (), parent: Any = None, **others: Any
    ) -> None:
        super().__init__(results)
        self.id = id or uuid()
        self.parent = parent

    def __str__(self) -> str:
        return self.id

    def __bool__(self) -> bool:
        return True  # also without results, as in Celery

    def as_list(self) -> list[str]:
        """Return the ids."""
        return [each.id for each in self.results]

    def as_tuple(self) -> tuple[Any, list[Any]]:
        """Return its id and its results' ids, from which `result_from_tuple` makes a result."""
        parent = self.parent and self.parent.as_tuple()
        return (self.id, parent), [each.as_tuple() for each in self.results]

    def save(self, backend: Any = None) -> None:
        """Do nothing: the group is stored with its flow."""

    def delete(self, backend: Any = None) -> None:
        """Do nothing: PGQUEUE["RETENTION"] removes the group with its flow."""

    @classmethod
    def restore(cls, id: str, backend: Any = None, app: Any = None) -> GroupResult | None:
        """Return the group of this id, without inner groups; None: there is none."""
        flow, _, number = str(id).partition(".")
        flow_id = id_of(flow)
        if flow_id is None or not number or not number.isprintable():
            return None
        alias = settings().database
        with needing_tables(alias), connections[alias].cursor() as cursor:
            cursor.execute(SQL["members"], {"flow_id": flow_id, "group": number})
            rows = cursor.fetchall()
        if not rows:
            return None
        return cls(id, [AsyncResult(given or of, number=of) for of, given in rows])


def result_from_tuple(r: Any, app: Any = None) -> Any:
    """Return the AsyncResult or GroupResult of an `as_tuple()`; a result as it is."""
    steps: list[tuple[Any, Any]] = []
    while r and not isinstance(r, AsyncResult | ResultSet):  # a chain may be long
        known, members = r
        id, r = known if isinstance(known, list | tuple) else (known, None)
        steps.append((id, members))
    result = r if isinstance(r, ResultSet) else r or None
    for id, members in reversed(steps):
        if members is None:
            result = AsyncResult(id, parent=result)
        else:
            result = GroupResult(id, list(map(result_from_tuple, members)), parent=result)
    return result
