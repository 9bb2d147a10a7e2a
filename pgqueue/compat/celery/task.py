"""The task class of a Celery project: options, calls, and operations inside of a run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db import OperationalError as DjangoOperationalError

from pgqueue.compat.celery import canvas, current, eager, making, replacing, running
from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.calling import options_of, routed
from pgqueue.compat.celery.capturing import captured
from pgqueue.compat.celery.conf import Conf, Version
from pgqueue.compat.celery.eager_result import EagerResult
from pgqueue.compat.celery.encoding import CeleryCodec
from pgqueue.compat.celery.exceptions import MaxRetriesExceededError, Retry, Unsupported
from pgqueue.compat.celery.placing import LINKS, store
from pgqueue.compat.celery.publishing import publish
from pgqueue.compat.celery.request import Request, context_of, request_of, requesting
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.signatures import Signature, plain
from pgqueue.exceptions import InvalidArgument, InvalidTask
from pgqueue.redaction import MASK
from pgqueue.values.error_words import shown

HANDLERS = ("before_start", "on_success", "on_failure", "on_retry", "after_return")


class Task:
    """The class of tasks, and the base of a project's own.

    Options are attributes of the class, or arguments of `@shared_task(…)`. Seconds may be
    timedeltas.

    Attributes:
        name: the name by which messages find the task.
        max_retries: the maximum of retries by `retry()` and autoretry_for; None: no limit.
        default_retry_delay: seconds before a retry.
        autoretry_for, dont_autoretry_for: the errors to retry, and exceptions to them. Any other
            error makes a dead letter.
        retry_kwargs: max_retries and countdown for autoretry_for.
        retry_backoff: True, or a factor for the delays of 1, 2, 4 … seconds.
        retry_backoff_max, retry_jitter: the longest delay, and whether each delay is drawn
            between 0 and its full length.
        rate_limit: the number of starts in a time, "10/m", for all workers together: a policy.
        time_limit, soft_time_limit: seconds after which TimeLimitExceeded or SoftTimeLimitExceeded
            is raised in the task.
        ignore_result: whether its return values are dropped.
        queue, priority, expires: defaults of the options of `apply_async`.
        track_started: whether a running message has the state STARTED.
        typing: whether a call that doesn't fit the function is refused; otherwise, its run fails.
            None: the app's strict_typing decides.
        redact: names of arguments to hide: an option of pgqueue's `@task`.
    """

    name: Any = None
    max_retries: int | None = 3
    default_retry_delay: Any = 180
    autoretry_for: Any = ()
    dont_autoretry_for: Any = ()
    retry_kwargs: Any = None
    retry_backoff: Any = False
    retry_backoff_max: Any = 600
    retry_jitter: Any = True
    rate_limit: Any = None
    time_limit: Any = None
    soft_time_limit: Any = None
    ignore_result: Any = None
    queue: Any = None
    priority: Any = None
    expires: Any = None
    track_started: Any = None
    throws: Any = ()
    redact: Any = ()
    typing: Any = None
    abstract: Any = True
    serializer = "json"
    acks_late = True

    MaxRetriesExceededError: ClassVar[Any] = MaxRetriesExceededError
    OperationalError: ClassVar[Any] = DjangoOperationalError

    is_bound = True
    """Whether the function gets the task as its first argument."""
    function: Any = None
    _made: tuple[Version, CeleryTask] | None = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work. A class-based task defines this method."""
        raise NotImplementedError(f"{self.name} has no run().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function at once, without storing a message."""
        around = self.request
        if not around.called_directly:
            return self.run(*args, **kwargs)
        # As in Celery, it has the attributes that were set on the request before.
        request = copy(around)
        request.args, request.kwargs = args, kwargs
        with requesting(self, request):
            returned = self.run(*args, **kwargs)
        return _awaited(self, request, returned) if inspect.iscoroutine(returned) else returned

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    def __reduce__(self) -> Any:
        return running.found, (self.name,)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Store a message in the open transaction, as `apply_async` does."""
        stored: AsyncResult = self.apply_async(args, kwargs)
        return stored

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store a message, in the open transaction of the queue's database.

        Args:
            args, kwargs: the arguments.
            options: countdown (seconds), eta, expires (seconds or a datetime), queue, priority (0
                to 9, higher first), task_id (unique among messages), headers, ignore_result,
                time_limit and soft_time_limit; link (signatures that run after success, with the
                return value) and link_error (errbacks, which are called after a failure).

        Raises:
            InvalidArguments: the arguments don't fit the function, or have no JSON form.
            Unsupported: an option is not taken over from Celery.
            InvalidTask: an option looks misspelled, or is invalid. Other unknown options become
                headers.
        """
        if (noted := captured(self, args, kwargs, options)) is not None:
            return noted
        args, kwargs = _checked(self, args, kwargs)
        if self.conf.task_always_eager:
            return self.apply(args, kwargs, **options)
        if options.get("link") or options.get("link_error"):
            return store(Signature(self, args, kwargs, options), is_called=True)
        given = routed(self, args, kwargs, _unlinked(options))
        return publish(self, args, kwargs, options_of(self, given))

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Store a message when the transaction of the default database commits."""
        self.apply_async_on_commit(args, kwargs)

    def apply_async_on_commit(self, args: Any = None, kwargs: Any = None, **options: Any) -> None:
        """Call `apply_async` when the transaction of the default database commits."""
        args, kwargs = _checked(self, args, kwargs)
        self.codec.encode(args, kwargs)  # invalid arguments fail here, not at the commit
        options_of(self, _unlinked(options))
        transaction.on_commit(
            partial(self.apply_async, args, kwargs, **options), using=DEFAULT_DB_ALIAS
        )

    def apply(
        self,
        args: Any = None,
        kwargs: Any = None,
        throw: bool | None = None,
        **options: Any,
    ) -> EagerResult:
        """Run the task in this process at once, with its retries and without their delays.

        Args:
            throw: whether to raise the task's error; None: task_eager_propagates decides.
            options: options of `apply_async`. Only task_id and headers have an effect.
        """
        args, kwargs = _checked(self, args, kwargs)
        options_of(self, _unlinked(options, "retries"))
        self.codec.encode(args, kwargs)
        throws = self.conf.task_eager_propagates if throw is None else throw
        return eager.apply(self, args, kwargs, throws=throws, options=options)

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: Any = None,
        countdown: Any = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> NoReturn:
        """End this run, and retry the message: `raise self.retry(exc=error)`.

        Args:
            exc: the error as the reason.
            countdown: seconds to wait; None: default_retry_delay.
            eta: the same as a datetime.
            max_retries: the maximum of retries; None: the task's max_retries.

        Raises:
            Retry: the worker catches it, and retries the message.
            Exception: `exc`, after the last retry, or if the task was called directly.
            MaxRetriesExceededError: after the last retry, without an exc.
            Unsupported: the call changes the arguments or the options.
        """
        request = self.request
        if request.called_directly:
            raise exc or Retry("The task was called directly: nothing tries it again.")
        _check_unchanged(self, request, args, kwargs, throw=throw, options=options)
        most = self.own.backoff.max_retries if max_retries is None else max_retries  # type: ignore[union-attr]
        if most is not None and request.retries >= most:
            if exc is not None:
                raise exc
            args, kwargs = (MASK, MASK) if self.redact else (tuple(request.args), request.kwargs)
            raise MaxRetriesExceededError(
                f"Can't retry {self.name}[{request.id}] args:{args} kwargs:{kwargs}",
                task_args=request.args,
                task_kwargs=request.kwargs,
            )
        if (context := context_of(self)) is not None:
            allowed = max(context.claim.max_attempts, request.retries + 2)
            context.claim = context.claim._replace(max_attempts=allowed)
        when = (
            options_of(self, {"eta": eta}).get("run_after") if eta and not countdown else countdown
        )
        raise Retry(exc=exc, when=self.default_retry_delay if when is None else when) from exc

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None
    ) -> None:
        """Store the progress of this run: AsyncResult shows it while the task runs.

        It is a checkpoint of pgqueue's, and part of the open transaction, if there is one.

        Raises:
            Unsupported: the task_id is not this run's, or no worker runs the task.
            InvalidProgress: `meta` has no JSON form.
        """
        context = context_of(self)
        if self.request.is_eager and task_id in (None, self.request.id):
            return
        if context is None or task_id not in (None, context.task_id):
            raise Unsupported(
                f"update_state() of {self.name}: only the run itself can note its state."
            )
        context.checkpoint({"state": state or "PROGRESS", "meta": meta})

    def AsyncResult(self, task_id: str, **others: Any) -> AsyncResult:
        """Return the result of a message, of this task or another one."""
        return AsyncResult(task_id, **others)

    def signature(
        self,
        args: Any = None,
        kwargs: Any = None,
        options: Any = None,
        *,
        immutable: bool = False,
        **others: Any,
    ) -> Signature:
        """Return a signature: a call of this task for later. Parameters as of `Signature`."""
        return Signature(self, args, kwargs, options, immutable=immutable, **others)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature with these arguments."""
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return an immutable signature with these arguments: it ignores others."""
        return self.signature(args, kwargs, immutable=True)

    def map(self, it: Any) -> canvas.xmap:
        """Return a signature whose one message calls this task with each of many values."""
        return canvas.xmap(self, it)

    def starmap(self, it: Any) -> canvas.xstarmap:
        """Return a signature whose one message calls this task with each tuple of arguments."""
        return canvas.xstarmap(self, it)

    def chunks(self, it: Any, n: int) -> canvas.chunks:
        """Return a group of starmaps of at most `n` calls each."""
        return canvas.chunks(self, it, n)

    def replace(self, sig: Any) -> Any:
        """End this run with a signature in its place: `return self.replace(sig)`.

        Messages that wait for this message wait for the signature, too, and get its return value.
        `AsyncResult` waits for it, too. The worker stores the signature with the end of this run.

        Raises:
            TaskPredicate: always, except in `apply()`. The worker catches it.
            Unsupported: no worker runs the task.
        """
        return replacing.replace(self, sig)

    def add_to_chord(self, sig: Any, lazy: bool = False) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported(
            f"{self.name}.add_to_chord(): use replace() to turn a task of the group into a group."
        )

    def send_event(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported(f"{self.name}.send_event(): use pgqueue.publish(topic, …).")

    @property
    def backend(self) -> Any:
        """Raises `Unsupported`: results need no backend."""
        raise Unsupported(f"{self.name}.backend: results are rows of the database: AsyncResult.")

    def get_logger(self, **kwargs: Any) -> logging.Logger:
        """Return the logger of this task's name."""
        return logging.getLogger(str(self.name))

    @property
    def request(self) -> Request:
        """The request of the current run."""
        return request_of(self)

    @property
    def _plain(self) -> type[Task]:
        """The unchanged base class, for comparing attributes."""
        return Task

    @property
    def app(self) -> Any:
        """The app of its decorator, or the current app."""
        return self._app or current.app()

    def _get_app(self) -> Any:
        """Return the app: celery-singleton and celery_once ask for it in this way."""
        return self.app

    @property
    def own(self) -> CeleryTask:
        """This task as a task of pgqueue's, for `own.enqueue_many()` and `own.using()`."""
        version = self.conf.version
        made = self._made
        if made is None or made[0] != version:
            made = self._made = (version, making.made(self))
        return made[1]

    @property
    def conf(self) -> Conf:
        """The settings of its app."""
        return current.conf() if self._app is None else self._app.conf

    _app: Any = None
    _class: Any = None
    """Its class without annotations."""

    @property
    def rate_limit_now(self) -> Any:
        """The rate limit of the task, or the default from the settings."""
        task = self.own.origin  # with the current annotations
        return making.option(task, "rate_limit", self.conf.task_default_rate_limit)

    @cached_property
    def codec(self) -> CeleryCodec:
        """The codec of its arguments and its result."""
        typing = self.app.strict_typing if self.typing is None else bool(self.typing)
        return CeleryCodec(self.function, skip_first=self.is_bound, typing=typing)

    @cached_property
    def handlers(self) -> frozenset[str]:
        """Names of the handlers that its class defines."""
        return frozenset(
            name for name in HANDLERS if getattr(type(self), name) is not getattr(Task, name)
        )

    @cached_property
    def has_own_apply_async(self) -> bool:
        """Whether its class overrides apply_async."""
        return type(self).apply_async is not Task.apply_async

    @cached_property
    def body(self) -> Callable[..., Any]:
        """The callable of a run: the task's function, or its class's __call__."""
        if type(self).__call__ is Task.__call__:
            return self.function  # type: ignore[no-any-return]
        return _without_self(self) if self.is_bound else self

    def before_start(self, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Do nothing. A subclass may act here before each run. An error here fails the run."""

    def on_success(
        self, retval: Any, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Do nothing. A subclass may act here after a success, before it is stored."""

    def on_failure(
        self,
        exc: BaseException,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do nothing. A subclass may act here after the last failure, before it is stored."""

    def on_retry(
        self,
        exc: BaseException,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do nothing. A subclass may act here after a run that is retried."""

    def after_return(
        self,
        status: str,
        retval: Any,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do nothing. A subclass may act here after the last run."""


def _unlinked(options: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return the options without links, and without the named others."""
    return {name: each for name, each in options.items() if name not in (*LINKS, *others)}


async def _awaited(task: Task, request: Request, returned: Coroutine[Any, Any, Any]) -> Any:
    with requesting(task, request):
        return await returned


def _without_self(task: Task) -> Callable[..., Any]:
    def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
        return task(*args, **kwargs)

    return call


def _checked(task: Task, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(args, str) or (args is not None and not hasattr(args, "__iter__")):
        raise InvalidTask(f"{task.name}: args={shown(args)}: it must be a tuple or a list.")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidTask(f"{task.name}: kwargs={shown(kwargs)}: it must be a dict.")
    try:
        return plain(tuple(args or ())), plain(dict(kwargs or {}))
    except RecursionError:
        raise InvalidArgument(
            f"An argument of {task.name} is nested too deeply, or contains itself."
        ) from None


def _check_unchanged(
    task: Task, request: Request, args: Any, kwargs: Any, *, throw: bool, options: Any
) -> None:
    same = (args is None or list(args) == list(request.args)) and (
        kwargs is None or dict(kwargs) == dict(request.kwargs)
    )
    if not same or options:
        what = ", ".join(options) or "the arguments"
        raise Unsupported(
            f"retry() of {task.name}: {what} must not change between the attempts of a message. "
            "Store changes by update_state(), or enqueue another message, and return."
        )
    if not throw:
        raise Unsupported(
            f"retry(throw=False) of {task.name}: the message is retried after the end of this run, "
            "so the run has to end: raise self.retry(…)."
        )
