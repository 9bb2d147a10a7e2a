"""Tasks of Celery's kind in a worker: as pgqueue's own, with Celery's handlers and signals."""

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
from pgqueue.compat.celery import announcing, publishing
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
"""Options that other tasks of pgqueue's don't have."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CeleryTask(Task[Any, Any]):
    """A task of Celery's kind as one of pgqueue's own.

    Attributes:
        origin: the task as the project sees it.
        named: its name.
        soft_timeout: after which SoftTimeLimitExceeded is raised in a run.
        ignore_result: whether what it returns is not kept.
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
        """What a message knows its task by."""
        return self.named

    @property
    def codec(self) -> Codec:
        """How its arguments and its result become JSON."""
        codec: Codec = self.origin.codec
        return codec

    @property
    def plain_codec(self) -> Codec:
        """The same: nothing is encrypted."""
        return self.codec

    @property
    def limits(self) -> tuple[TimeLimit, ...]:
        """The soft limit, then the hard one."""
        hard, soft = self.timeout, self.soft_timeout
        if soft is None:
            return () if hard is None else (TimeLimit(hard, TimeLimitExceeded),)
        warning = TimeLimit(soft, SoftTimeLimitExceeded, is_final=False)
        return (warning,) if hard is None else (warning, TimeLimit(hard, TimeLimitExceeded))

    def using(self, **options: Any) -> Self:
        """Return a copy with other options, also soft_timeout and ignore_result."""
        own = {name: options.pop(name) for name in OWN if name in options}
        if "soft_timeout" in own:
            own["soft_timeout"] = checked({"timeout": own["soft_timeout"]})["timeout"]
        changed = super().using(**options)
        return replace(changed, **own) if own else changed

    def for_message(self, changed: bytes | None) -> CeleryTask:
        """Return the task by today's settings, with the options of one message."""
        now: CeleryTask = self.origin.own
        return now if not changed else super(CeleryTask, now).for_message(changed)

    def context(self, claim: Claim, run: RunState, database: str) -> TaskContext:
        """Return the context of a run of this task."""
        return CeleryContext(self, claim, run, database)

    @calls_user_code
    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task here and now, as its class says."""
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
        """Return as JSON what a run returned, if that is to be kept.

        Raises:
            InvalidResult: it can't be stored.
        """
        if isinstance(value, Replaced):
            return value.result
        return "null" if self.ignore_result else super().encode_result(value)

    def scheduled_by(self, name: str) -> dict[str, Any]:
        """Return the options of an entry of beat_schedule, and what routes and signals add."""
        entry = self.origin.conf.beat_schedule.get(name)
        if entry is None:
            return {}
        args, kwargs = tuple(entry.get("args") or ()), dict(entry.get("kwargs") or {})
        made = capture(self.origin, args, kwargs, dict(entry.get("options") or {}))
        if (made.args, made.kwargs) != (args, kwargs):
            raise Unsupported(
                f"{self.name}: the apply_async() of its class changes the arguments. Those of the "
                f"schedule {name!r} are fixed: have it start a task that calls this one."
            )
        given = routed(self.origin, args, kwargs, made.options)
        return publishing.before(self.origin, args, kwargs, options_of(self.origin, given))

    def is_expected(self, error: BaseException) -> bool:
        """Tell whether `throws` has the error, or the run passes on the error of a parent."""
        if isinstance(error.__cause__, ParentFailed):
            return True
        throws = self.origin.throws
        return isinstance(error, tuple(throws) if isinstance(throws, list) else throws or ())

    def send_started(self, context: TaskContext) -> None:
        """Send Celery's signals, too."""
        super().send_started(context)
        if isinstance(context, CeleryContext):
            announcing.started(self.origin, context)

    def send_finished(self, context: TaskContext, ending: Ending) -> None:
        """Send Celery's signals, too, and call the handlers of the task's class."""
        super().send_finished(context, ending)
        if isinstance(context, CeleryContext):
            announcing.finished(self.origin, context, ending)


def surrounded(task: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function that does what `CeleryTask.run_here` does for others."""

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
    """Keep what a run returned for those who are told of its end, also where it is not stored."""
    if context is not None:
        context.returned = returned
    return returned


@contextmanager
def _as_asked(task: Any, args: Any, kwargs: Any) -> Iterator[CeleryContext | None]:
    """Call what comes before a run; and end the run as it asks."""
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
        UnknownTask: there is none.
    """
    own = registry.find(name)
    if not isinstance(own, CeleryTask):
        raise UnknownTask(
            f"No task is named {name} here. Is its app in INSTALLED_APPS? Another project's task "
            "on this database is enqueued by SQL, pgqueue_enqueue(), in a channel of its own; what "
            "is no task of anybody's is sent by pgqueue.send()."
        )
    return own.origin
