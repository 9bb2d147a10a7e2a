"""The current run as a task sees it: `self.request`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist

from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.utils.nodenames import default_nodename
from pgqueue.exceptions import UnreadablePayload
from pgqueue.tasks import TaskResult, flow_results
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.current import running
from pgqueue.values.instants import aware

OURS = "celery"
"""The metadata key of a message's values for Celery, such as its task_id."""


def call_of(message: TaskResult[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return a message's arguments, or the stored JSON if this code is unable to read them."""
    try:
        return list(message.args), dict(message.kwargs)
    except (UnreadablePayload, ObjectDoesNotExist):
        return message.stored_call


class Request:
    """The request outside of a run: empty, except for the arguments of a direct call."""

    id: str | None = None
    task: str | None = None
    args: Any
    kwargs: Any
    retries = 0
    is_eager = False
    called_directly = True
    hostname: str | None = None
    delivery_info: Any = None
    headers: Any = None
    eta: Any = None
    expires: Any = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    root_id: str | None = None
    parent_id: str | None = None
    group: str | None = None
    group_index: int | None = None
    chord: Any = None
    children: Any = ()
    ignore_result = False
    shadow: str | None = None
    stamps: Any = None
    stamped_headers: Any = None
    errbacks: Any = None
    origin: str | None = None
    reply_to: str | None = None
    properties: Any = None
    replaced_task_nesting = 0
    utc = True

    def __init__(self, args: Any = (), kwargs: Any = None) -> None:
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs

    def __getattr__(self, name: str) -> Any:
        """Return a header of the message, as in Celery."""
        headers = None if name.startswith("_") else self.headers
        if not headers or name not in headers:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return headers[name]

    @property
    def chain(self) -> None:
        """None: the later steps are stored already, as waiting messages."""

    @chain.setter
    def chain(self, others: Any) -> None:
        raise Unsupported(
            f"request.chain of {self.task}: the next messages are stored, and wait. raise Ignore() "
            "ends this message, and cancels them; revoke() of the call's result cancels one."
        )

    @property
    def callbacks(self) -> None:
        """None: the links are stored already, as waiting messages."""

    @callbacks.setter
    def callbacks(self, others: Any) -> None:
        self.chain = others

    @property
    def argsrepr(self) -> str:
        """The positional arguments as text."""
        return repr(tuple(self.args))

    @property
    def kwargsrepr(self) -> str:
        """The named arguments as text."""
        return repr(dict(self.kwargs))

    @property
    def correlation_id(self) -> str | None:
        """The same as the id."""
        return self.id

    @property
    def timelimit(self) -> tuple[float | None, float | None]:
        """The hard and the soft limit, in seconds."""
        return self.time_limit, self.soft_time_limit

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute or a header, or the default."""
        return getattr(self, name, default)

    def __repr__(self) -> str:
        return f"<Context: {self.task} {self.id} args={self.args!r} kwargs={self.kwargs!r}>"


class RunRequest(Request):
    """The request of a run in a worker, from its message."""

    called_directly = False

    def __init__(self, context: CeleryContext) -> None:
        self._context = context
        claim, limits = context.claim, context.options
        self.task = context.task.name
        self.id = self.root_id = context.task_id
        self.retries = claim.failures
        self.ignore_result = limits.ignore_result
        self.hostname = default_nodename()
        self.time_limit = limits.timeout.total_seconds() if limits.timeout else None
        own = context.metadata.get(OURS)
        number = own.get("group") if isinstance(own, dict) else None
        self.group = number and f"{claim.flow_id}.{number}"
        soft = limits.soft_timeout
        self.soft_time_limit = soft.total_seconds() if soft else None
        self.delivery_info = {
            "exchange": "",
            "routing_key": claim.channel,
            "priority": claim.priority // 10,
            "redelivered": claim.attempt > 1,
        }

    @property
    def args(self) -> Any:
        """The positional arguments, with results in the place of references to them."""
        return self._context.given[0]

    @property
    def kwargs(self) -> Any:
        """The named arguments."""
        return self._context.given[1]

    @property
    def headers(self) -> Any:
        """The producer's headers, from the message's metadata."""
        metadata = self._context.metadata
        return {name: value for name, value in metadata.items() if name != OURS} or None

    @property
    def eta(self) -> str | None:
        """The instant of the first run, if the message was delayed."""
        claim = self._context.claim
        if claim.run_at <= claim.created_at or claim.failures:
            return None
        return claim.run_at.isoformat()

    @property
    def expires(self) -> str | None:
        """The instant at which the message expires. The property asks the database."""
        rows = apps.get_model("pgqueue", "Message").objects.using(self._context.database)
        found = rows.filter(pk=self._context.id)
        at: datetime | None = found.values_list("expires_at", flat=True).first()
        return aware(at).isoformat() if at else None


class EagerRequest(Request):
    """The request of a run in the place of its call: `apply()`."""

    is_eager = True
    called_directly = False
    hostname = "celery@eager"

    def __init__(
        self, task: Any, id: str, args: Any, kwargs: Any, *, retries: int, headers: Any
    ) -> None:
        self.task = task.name
        self.id = self.root_id = id
        self.args = args
        self.kwargs = kwargs
        self.retries = retries
        self.headers = headers
        self.delivery_info = {"is_eager": True, "exchange": "", "routing_key": task.own.queue_name,
                              "priority": 0, "redelivered": False}  # fmt: skip


@dataclass(eq=False)
class CeleryContext(TaskContext):
    """The run of a task of Celery's kind.

    Attributes:
        untold: whether the end of the run is not announced, as in Celery: it ends by `replace()`,
            or because a parent has failed.
        returned: the task's return value.
    """

    untold: bool = field(default=False, init=False)
    returned: Any = field(default=None, init=False)

    @property
    def argument(self) -> Any:
        """The `self` of a bound task."""
        return self.task.origin  # type: ignore[attr-defined]

    @cached_property
    def task_id(self) -> str:
        """The message's task_id, or its number."""
        if OURS.encode() not in self.claim.metadata:
            return self.id
        return given_id(self.metadata) or self.id

    @property
    def given(self) -> tuple[Any, Any]:
        """The arguments of this run."""
        if self.claim.flow_id is None:
            return call_of(self.task_result)
        return self._given_in_flow

    @cached_property
    def _given_in_flow(self) -> tuple[Any, Any]:
        taken = dict(self.claim.taken)

        def results(ids: Collection[int]) -> Mapping[int, Any]:
            if taken.keys() >= set(ids):
                return taken
            return flow_results.results(self.database, ids, since=self.claim.created_at)

        try:
            return self.task.codec.decode(self.claim.payload or b"", results)
        except (UnreadablePayload, ObjectDoesNotExist):
            return self.task_result.stored_call

    @cached_property
    def options(self) -> Any:
        """The task, with the options of this message."""
        return self.task.for_message(self.claim.options)

    @cached_property
    def request(self) -> RunRequest:
        """The task's `self.request`."""
        return RunRequest(self)


def given_id(metadata: Mapping[str, Any]) -> str | None:
    """Return a message's task_id; None: the message has only a number."""
    own = metadata.get(OURS)
    found = own.get("id") if isinstance(own, dict) else None
    return found if isinstance(found, str) else None


_announced: ContextVar[tuple[Any, Request] | None] = ContextVar("announced", default=None)
_called: ContextVar[tuple[Any, Request] | None] = ContextVar("called", default=None)
"""The innermost direct call. No task runs by it, as in Celery."""


def context_of(task: Any) -> CeleryContext | None:
    """Return the context of the current run, if it is a run of this task; otherwise, None."""
    context = running.get()
    is_its = isinstance(context, CeleryContext) and context.argument is task
    return context if is_its else None  # type: ignore[return-value]


def request_of(task: Any) -> Request:
    """Return the request of the current run or call of this task.

    Outside of both, return the one request that the task keeps for it. As in Celery, tests set its
    attributes.
    """
    told = _announced.get()
    if told is not None and told[0] is task:
        return told[1]
    if (context := context_of(task)) is not None:
        return context.request
    called = _called.get()
    if called is not None and called[0] is task:
        return called[1]
    kept: Request = vars(task).setdefault("_default_request", Request())
    return kept


def running_task() -> Any:
    """Return the running task; None: no task runs here."""
    if (told := _announced.get()) is not None:
        return told[0]
    context = running.get()
    return context.argument if isinstance(context, CeleryContext) else None


@contextmanager
def requesting(task: Any, request: Request) -> Iterator[None]:
    """Set the task's request inside this block, outside of a worker's run."""
    current = _called if request.called_directly else _announced
    token = current.set((task, request))
    try:
        yield
    finally:
        current.reset(token)
