"""A `django.tasks` Task with pgqueue's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pgqueue import exceptions
from pgqueue.backend import api
from pgqueue.backend.context import PostgresTaskContext
from pgqueue.options.retries import Backoff, declare
from pgqueue.tasks.options import Atomic, checked

if TYPE_CHECKING:
    from pgqueue.backend.running import AdoptedTask

P = ParamSpec("P")
T = TypeVar("T")

# A part of pgqueue.task's options: the other ones belong to Django's task, or to the backend.
OPTIONS = (
    "key", "ordered", "dedupe_key", "dedupe_for", "on_conflict", "longest_wait", "expires_at",
    "ttl", "hold_for", "max_attempts", "backoff", "timeout", "hard_timeout", "atomic", "metadata",
    "enqueue_on_commit", "encrypted", "weight",
)  # fmt: skip


@contextmanager
def djangos_errors() -> Iterator[None]:
    """Raise Django's InvalidTask in the place of pgqueue's."""
    try:
        yield
    except exceptions.InvalidTask as error:
        raise api.InvalidTask(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class PostgresTask(api.Task, Generic[P, T]):  # type: ignore[type-arg]
    """A Task of `django.tasks` with the options of `pgqueue.task`.

    For an option that is None, the backend's OPTIONS hold.
    """

    key: str | Callable[..., str] | None = None
    weight: int | None = None
    ordered: bool | None = None
    dedupe_key: str | Callable[..., str | None] | None = None
    dedupe_for: timedelta | float | None = None
    on_conflict: str | None = None
    longest_wait: timedelta | float | None = None
    expires_at: datetime | None = None
    ttl: timedelta | float | None = None
    hold_for: timedelta | float | None = None
    max_attempts: int | None = None
    backoff: Backoff | Sequence[float | timedelta] | None = None
    timeout: timedelta | float | None = None
    hard_timeout: timedelta | float | None = None
    atomic: Atomic | None = None
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    enqueue_on_commit: bool | str | None = None
    encrypted: bool | None = None

    def __post_init__(self) -> None:
        with djangos_errors():
            options = checked(self.options)
        for name, value in options.items():
            object.__setattr__(self, name, value)
        # Without arguments, super() fails in dataclasses with slots before Python 3.14.
        api.Task.__post_init__(self)

    @property
    def options(self) -> dict[str, Any]:
        """The options of pgqueue's that this task sets."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def adopted(self) -> AdoptedTask:
        """The pgqueue task that stores its messages.

        Raises:
            AttributeError: its backend is not a PostgresBackend.
        """
        backend: Any = self.get_backend()
        # Made once for all threads, and again only after settings were overridden.
        known = self.__dict__.get("_adopted")
        if known is None or known[0] is not backend.params:
            known = self.__dict__["_adopted"] = (backend.params, backend.adopt(self))
        adopted: AdoptedTask = known[1]
        return adopted

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function at once. ImmediateBackend calls this with Django's context."""
        if self.takes_context and args and type(args[0]) is api.TaskContext:
            context = PostgresTaskContext(
                task_result=args[0].task_result, metadata=self.metadata or {}
            )
            args = (context, *args[1:])
        return api.Task.call(self, *args, **kwargs)

    def using(self, **options: Any) -> PostgresTask[P, T]:
        """Return a copy with other options, Django's or pgqueue's.

        Raises:
            InvalidTask: an option has an invalid value, or belongs to the function.
            TypeError: an option is unknown.
        """
        if "encrypted" in options:
            raise api.InvalidTask("encrypted belongs to the function: give it to @task.")
        return replace(
            self, **{name: value for name, value in options.items() if value is not None}
        )

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """Enqueue one message for each tuple or dict of arguments in `calls`: all or none."""
        results: list[Any] = self.get_backend().enqueue_many(self, calls)  # type: ignore[attr-defined]
        return results


@overload
def task(function: Callable[P, T], /) -> PostgresTask[P, T]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: bool = ...,
    key: str | Callable[..., str] | None = ...,
    weight: int | None = ...,
    ordered: bool | None = ...,
    dedupe_key: str | Callable[..., str | None] | None = ...,
    dedupe_for: timedelta | float | None = ...,
    on_conflict: str | None = ...,
    longest_wait: timedelta | float | None = ...,
    expires_at: datetime | None = ...,
    ttl: timedelta | float | None = ...,
    hold_for: timedelta | float | None = ...,
    max_attempts: int | None = ...,
    backoff: Backoff | Sequence[float | timedelta] | None = ...,
    timeout: timedelta | float | None = ...,
    hard_timeout: timedelta | float | None = ...,
    atomic: Atomic | None = ...,
    metadata: Mapping[str, Any] | None = ...,
    enqueue_on_commit: bool | str | None = ...,
    encrypted: bool | None = ...,
) -> Callable[[Callable[..., T]], PostgresTask[..., T]]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = api.base.DEFAULT_TASK_PRIORITY,
    queue_name: str = api.base.DEFAULT_TASK_QUEUE_NAME,
    backend: str = api.base.DEFAULT_TASK_BACKEND_ALIAS,
    **options: Any,
) -> Any:
    """Make a function a task, as `django.tasks.task` does, with pgqueue's options.

    Args:
        options: any of `OPTIONS`, as in `pgqueue.task`.

    Raises:
        InvalidTask: an option has an invalid value.
        TypeError: an option is unknown.
    """

    def make(function: Callable[..., Any]) -> PostgresTask[..., Any]:
        declare(options.get("backoff"))
        return PostgresTask(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            run_after=None,
            **options,
        )

    return make if function is None else make(function)
