"""A task as a Celery project sees it: its options, how it is called, and what it may ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db import OperationalError as DjangoOperationalError

from pgqueue.compat.celery import canvas, current, eager, making, replacing, running
from pgqueue.compat.celery.async_result import AsyncResult, EagerResult
from pgqueue.compat.celery.calling import options_of, routed
from pgqueue.compat.celery.capturing import captured
from pgqueue.compat.celery.conf import Conf, Version
from pgqueue.compat.celery.encoding import CeleryCodec
from pgqueue.compat.celery.exceptions import MaxRetriesExceededError, Retry, Unsupported
from pgqueue.compat.celery.placing import LINKS, store
from pgqueue.compat.celery.publishing import publish
from pgqueue.compat.celery.request import Request, context_of, request_of
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.signatures import Signature, plain
from pgqueue.exceptions import InvalidArgument, InvalidTask
from pgqueue.redaction import MASK
from pgqueue.values.error_words import shown

HANDLERS = ("before_start", "on_success", "on_failure", "on_retry", "after_return")


class Task:
    """The class of tasks, and the base of a project's own.

    Options are attributes, of the class or as `@shared_task(…)` gives them. Seconds may be
    timedeltas.

    Attributes:
        name: what messages know it by.
        max_retries: how often `retry()` and autoretry_for try again; None: for ever.
        default_retry_delay: seconds before that.
        autoretry_for, dont_autoretry_for: the errors that are retried, and those of them that are
            not. All others make a dead letter.
        retry_kwargs: max_retries and countdown of these retries.
        retry_backoff: True or a factor: 1, 2, 4 … times that in seconds.
        retry_backoff_max, retry_jitter: its longest delay, and whether it is drawn from 0 to that.
        rate_limit: how many start in a time, "10/m": by a policy, of all workers together.
        time_limit, soft_time_limit: seconds after which TimeLimitExceeded or SoftTimeLimitExceeded
            is raised in the task.
        ignore_result: keep nothing of what it returns.
        queue, priority, expires: as `apply_async` has them.
        track_started: whether the state STARTED is told of.
        typing: whether a call that doesn't fit the function is refused; otherwise, its run fails.
            None: as the app's strict_typing says.
        redact: arguments that nobody is shown: an option of pgqueue's, as `@task` has it.
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
        """Do the work: a class-based task defines it."""
        raise NotImplementedError(f"{self.name} has no run().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now: no message is stored."""
        return self.run(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    def __reduce__(self) -> Any:
        return running.found, (self.name,)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Store a message, in the transaction that is open, as `apply_async` does."""
        stored: AsyncResult = self.apply_async(args, kwargs)
        return stored

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store a message, in the transaction that is open on the queue's database.

        Args:
            args, kwargs: the arguments.
            options: countdown (seconds), eta, expires (seconds or a datetime), queue, priority (0
                to 9, higher first), task_id (no second message has it), headers, ignore_result,
                time_limit and soft_time_limit; link (signatures that follow, and get what it
                returned) and link_error (those that are called when it has failed).

        Raises:
            InvalidArguments: they don't fit the function, or can't be stored.
            Unsupported: an option is not taken over from Celery.
            InvalidTask: an option looks misspelled, or can't be. Unknown ones are headers.
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
        """Do what `apply_async` does when the transaction of the default database commits."""
        args, kwargs = _checked(self, args, kwargs)
        self.codec.encode(args, kwargs)  # what can't be stored is an error here, not at the commit
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
        """Run the task here and now, with its retries, at once each.

        Args:
            throw: raise its error; None: as task_eager_propagates says.
            options: those of `apply_async`, which have no effect here but task_id and headers.
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
        """End this run, and have the message tried again: `raise self.retry(exc=error)`.

        Args:
            exc: the error that is the reason.
            countdown: seconds to wait; None: default_retry_delay.
            eta: the same as a datetime.
            max_retries: how often; None: as the task says.

        Raises:
            Retry: nearly always; the worker takes it from there.
            Exception: `exc`, after the last retry, or where the task was called directly.
            MaxRetriesExceededError: after the last retry, without an exc.
            Unsupported: the arguments or the options are to change.
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
        """Note how far this run has come: AsyncResult tells of it while the task runs.

        It is a checkpoint of pgqueue's, in the transaction that is open, if one is.

        Raises:
            Unsupported: it is of another task's run, or of none.
            InvalidProgress: `meta` can't be stored.
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
        """Look up a message of this task, or of another."""
        return AsyncResult(task_id, **others)

    def signature(
        self,
        args: Any = None,
        kwargs: Any = None,
        immutable: bool = False,
        **options: Any,
    ) -> Signature:
        """Return a call to be made later."""
        return Signature(self, args, kwargs, options, immutable=immutable)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call to be made later, with these arguments."""
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a call to be made later, which takes no other arguments."""
        return self.signature(args, kwargs, immutable=True)

    def map(self, it: Any) -> canvas.xmap:
        """Return a call of one message that calls it with each of many values."""
        return canvas.xmap(self, it)

    def starmap(self, it: Any) -> canvas.xstarmap:
        """Return a call of one message that calls it with each of many tuples of arguments."""
        return canvas.xstarmap(self, it)

    def chunks(self, it: Any, n: int) -> canvas.chunks:
        """Return a group of starmaps of at most `n` calls each."""
        return canvas.chunks(self, it, n)

    def replace(self, sig: Any) -> Any:
        """End this run, and have a signature take its place: `return self.replace(sig)`.

        Whatever waits for this message waits for that one, too, and gets what that one returns;
        so does `AsyncResult`. It is stored together with the end of this run.

        Raises:
            TaskPredicate: always, but in `apply()`; the worker takes it from there.
            Unsupported: no worker runs it.
        """
        return replacing.replace(self, sig)

    def add_to_chord(self, sig: Any, lazy: bool = False) -> NoReturn:
        """Say what takes its place."""
        raise Unsupported(
            f"{self.name}.add_to_chord(): replace() has a task of the group become a group."
        )

    def send_event(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Say what takes its place."""
        raise Unsupported(f"{self.name}.send_event(): pgqueue.publish(topic, …) tells others.")

    @property
    def backend(self) -> Any:
        """There is none."""
        raise Unsupported(f"{self.name}.backend: results are rows of the database: AsyncResult.")

    def get_logger(self, **kwargs: Any) -> logging.Logger:
        """Return the logger of this task's name."""
        return logging.getLogger(str(self.name))

    @property
    def request(self) -> Request:
        """What is known of the run that is under way here."""
        return request_of(self)

    @property
    def plain(self) -> type[Task]:
        """The class whose attributes no project has changed."""
        return Task

    @property
    def app(self) -> Any:
        """The app it belongs to: that of its decorator, or the current one."""
        return self._app or current.app()

    def _get_app(self) -> Any:
        """Return the app: celery-singleton and celery_once ask for it in this way."""
        return self.app

    @property
    def own(self) -> CeleryTask:
        """The same task as one of pgqueue's: for `own.enqueue_many()` and `own.using()`."""
        version = self.conf.version
        made = self._made
        if made is None or made[0] != version:
            made = self._made = (version, making.made(self))
        return made[1]

    @property
    def conf(self) -> Conf:
        """The settings that hold for it."""
        return current.conf() if self._app is None else self._app.conf

    _app: Any = None
    _class: Any = None
    """Its class without annotations."""

    @property
    def rate_limit_now(self) -> Any:
        """The rate limit of the task, or that of the settings."""
        task = self.own.origin  # with the annotations of this moment
        return making.option(task, "rate_limit", self.conf.task_default_rate_limit)

    @cached_property
    def codec(self) -> CeleryCodec:
        """How its arguments and its result become JSON."""
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
        """Whether its class surrounds the storing of its messages."""
        return type(self).apply_async is not Task.apply_async

    @cached_property
    def body(self) -> Callable[..., Any]:
        """What a run calls: its function, or what its class has as __call__."""
        if type(self).__call__ is Task.__call__:
            return self.function  # type: ignore[no-any-return]
        return _without_self(self) if self.is_bound else self

    def before_start(self, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Do something before each run, in its thread; what it raises is the run's error."""

    def on_success(
        self, retval: Any, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Do something after a run that succeeded, before that is stored."""

    def on_failure(
        self,
        exc: BaseException,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do something after the last run that failed, before that is stored."""

    def on_retry(
        self,
        exc: BaseException,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do something after a run that is tried again."""

    def after_return(
        self,
        status: str,
        retval: Any,
        task_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        einfo: Any,
    ) -> None:
        """Do something after the last run."""


def _unlinked(options: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return options without those that say what is linked, and without others."""
    return {name: each for name, each in options.items() if name not in (*LINKS, *others)}


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
            f"retry() of {task.name}: {what} can't change between the attempts of a message. "
            "Note what changes by update_state(), or enqueue another message, and return."
        )
    if not throw:
        raise Unsupported(
            f"retry(throw=False) of {task.name}: its message is retried by the end of this run, "
            "so it has to end: raise self.retry(…)."
        )
