"""Celery's tasks in a worker: tasks of pgqueue's, with Celery's handlers and signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, wraps
from typing import Any, ClassVar, Self

from asgiref.sync import sync_to_async

from pgqueue.calls.outcomes import Ending
from pgqueue.codec.arguments import Codec
from pgqueue.compat.celery import announcing, current, publishing
from pgqueue.compat.celery.calling import options_of, routed
from pgqueue.compat.celery.capturing import capture
from pgqueue.compat.celery.exceptions import (
    Ignore,
    Reject,
    Replaced,
    SoftTimeLimitExceeded,
    TimeLimitExceeded,
    Unsupported,
)
from pgqueue.compat.celery.joining import check_parents
from pgqueue.compat.celery.request import CeleryContext, context_of, request_of
from pgqueue.engine.values import Claim
from pgqueue.exceptions import Defer, Discard, ParentFailed, UnknownTask
from pgqueue.tasks import Task, TaskContext, registry
from pgqueue.tasks.context import RunState
from pgqueue.tasks.limits import TimeLimit
from pgqueue.tasks.options import LIMIT, RUN_OPTIONS, RunOption, RunOptions, checked
from pgqueue.values.number_checks import as_flag
from pgqueue.values.tracebacks import calls_user_code

OWN = ("soft_timeout", "ignore_result")
"""Options that pgqueue's other tasks do not have."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CeleryTask(Task[Any, Any]):
    """A task of Celery's kind as a task of pgqueue's.

    Attributes:
        origin: the task as the project sees it.
        named: the task's name.
        soft_timeout: the duration after which a run gets SoftTimeLimitExceeded.
        ignore_result: whether its return values are dropped.
    """

    run_options: ClassVar[RunOptions] = {
        **RUN_OPTIONS,
        "soft_timeout": LIMIT,
        "ignore_result": RunOption(bool, as_flag),
    }

    origin: Any
    named: str
    soft_timeout: timedelta | None = None
    ignore_result: bool = False

    @cached_property
    def name(self) -> str:
        """The name by which a message finds its task."""
        return self.named

    @property
    def codec(self) -> Codec:
        """The codec of its arguments and its result."""
        codec: Codec = self.origin.codec
        return codec

    @property
    def plain_codec(self) -> Codec:
        """The same codec: nothing is encrypted."""
        return self.codec

    @property
    def limits(self) -> tuple[TimeLimit, ...]:
        """The soft limit, if a run reaches it before the hard one; then the hard one."""
        hard, soft = self.timeout, self.soft_timeout
        last = () if hard is None else (TimeLimit(hard, TimeLimitExceeded),)
        if soft is None or (hard is not None and soft >= hard):
            return last
        return (TimeLimit(soft, SoftTimeLimitExceeded, is_final=False), *last)

    def using(self, **options: Any) -> Self:
        """Return a copy with other options, also soft_timeout and ignore_result."""
        own = {name: options.pop(name) for name in OWN if name in options}
        if "soft_timeout" in own:
            own["soft_timeout"] = checked({"timeout": own["soft_timeout"]})["timeout"]
        changed = super().using(**options)
        return replace(changed, **own) if own else changed

    def for_message(self, changed: bytes | None) -> CeleryTask:
        """Return the task by the current settings, with the options of one message."""
        now: CeleryTask = self.origin.own
        return now if not changed else super(CeleryTask, now).for_message(changed)

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return the context of a run of this task."""
        return CeleryContext(self, claim, run, database)

    @calls_user_code
    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task in this process, at once, with the handlers of its class."""
        if self.is_async:
            return super().run_here(*args, **kwargs)
        if (context := context_of(self.origin)) is not None:
            check_parents(context, args[self.origin.is_bound :], kwargs)
        try:
            with _as_asked(self.origin, args, kwargs) as context:
                return _kept(context, self.origin.body(*args, **kwargs))
        except Replaced as replaced:
            return replaced

    def encode_result(self, value: Any) -> str:
        """Return a run's return value as JSON; "null" if the result is ignored.

        Raises:
            InvalidResult: JSON cannot store the value.
        """
        if isinstance(value, Replaced):
            return value.result
        return "null" if self.ignore_result else super().encode_result(value)

    def scheduled_by(self, name: str) -> dict[str, Any]:
        """Return the options of a beat_schedule entry, with additions by routes and signals."""
        entry = current.conf().beat_schedule.get(name)
        if entry is None:
            return {}
        args, kwargs = tuple(entry.get("args") or ()), dict(entry.get("kwargs") or {})
        made = capture(self.origin, args, kwargs, dict(entry.get("options") or {}))
        if (made.args, made.kwargs) != (args, kwargs):
            raise Unsupported(
                f"{self.name}: the apply_async() of its class changes the arguments, but the "
                f"schedule {name!r} has fixed ones: schedule another task, which calls this one."
            )
        given = routed(self.origin, args, kwargs, made.options)
        return publishing.before(self.origin, args, kwargs, options_of(self.origin, given))

    def is_expected(self, error: BaseException) -> bool:
        """Say whether `throws` has the error, or the run passes on the error of a parent."""
        if isinstance(error.__cause__, ParentFailed):
            return True
        throws = self.origin.throws
        return isinstance(error, tuple(throws) if isinstance(throws, list) else throws or ())

    def send_started(self, context: TaskContext) -> None:
        """Also send Celery's signals."""
        super().send_started(context)
        if isinstance(context, CeleryContext):
            announcing.started(self.origin, context)

    def send_finished(self, context: TaskContext, ending: Ending) -> None:
        """Also send Celery's signals, and call the handlers of the task's class."""
        super().send_finished(context, ending)
        if isinstance(context, CeleryContext):
            announcing.finished(self.origin, context, ending)


def surrounded(task: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function with the steps of `CeleryTask.run_here` around this one."""

    @wraps(function)
    @calls_user_code
    async def call(*args: Any, **kwargs: Any) -> Any:
        if (context := context_of(task)) is not None and context.claim.flow_id is not None:
            await sync_to_async(check_parents)(context, args[task.is_bound :], kwargs)
        try:
            with _as_asked(task, args, kwargs) as context:
                return _kept(context, await function(*args, **kwargs))
        except Replaced as replaced:
            return replaced

    return call


def _kept(context: CeleryContext | None, returned: Any) -> Any:
    """Keep a run's return value for handlers and signals, even if it is not stored."""
    if context is not None:
        context.returned = returned
    return returned


@contextmanager
def _as_asked(task: Any, args: Any, kwargs: Any) -> Iterator[CeleryContext | None]:
    """Call before_start, and turn Ignore and Reject of the run into pgqueue's exceptions."""
    context = context_of(task)
    if "before_start" in task.handlers:
        task.before_start(request_of(task).id, args[task.is_bound :], kwargs)
    try:
        yield context
    except Ignore as error:
        raise Discard(str(error) or "ignored") from error
    except Reject as error:
        if not error.requeue:
            raise
        raise Defer from error


def found(name: str) -> Any:
    """Return the task of this name, as the project sees it.

    Raises:
        UnknownTask: no task of Celery's kind has this name.
    """
    own = registry.find(name)
    if not isinstance(own, CeleryTask):
        raise UnknownTask(
            f"No task is named {name} here. Is its app in INSTALLED_APPS? Another project's task "
            "on this database is enqueued by SQL, pgqueue_enqueue(), in a channel of its own; a "
            "message without a task is sent by pgqueue.send()."
        )
    return own.origin
