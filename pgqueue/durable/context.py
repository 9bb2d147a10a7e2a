"""What a durable task gets as its first argument."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn, ParamSpec, TypeVar, overload
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from asgiref.sync import sync_to_async
from django.utils import timezone

from pgqueue.calls import tracing
from pgqueue.calls.outcomes import Continued, HandedBack
from pgqueue.codec.encoding import ANYTHING
from pgqueue.durable import calling, trying, waiting
from pgqueue.durable.blocks import AtomicBlock
from pgqueue.durable.calling import ON_FAILURE, OnFailure, PendingCall
from pgqueue.durable.links import Linking
from pgqueue.durable.records import NAME_BYTES, Records, savepoints
from pgqueue.durable.trying import StepOptions
from pgqueue.durable.waiting import Signal, Until, Wanted
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import Cancel, InvalidStep, Suspend, WaitTimeout
from pgqueue.options.retries import Backoff
from pgqueue.tasks.context import TaskContext, contexts
from pgqueue.tasks.result import TaskResult

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=Event)


@dataclass(eq=False)
class DurableContext(Linking, TaskContext):
    """The first argument of a durable task: its steps and its waits.

    The function is called again from its top whenever it goes on. What stands in steps is not done
    again; what stands between them is. Steps are found by their names.
    """

    step_name: str | None = field(default=None, init=False)
    """The name of the step that is under way; None: none is."""
    _outside: list[str] | None = field(default=None, init=False)
    """The savepoints that were open when the run began: those of a test."""

    def __post_init__(self) -> None:
        self.records = Records(self.database, self.claim, is_encrypted=self.task.encrypted)
        if self.task.is_async:
            self.records.load()  # an event loop must not query the database
        self._outside = savepoints(self.database)

    # --- Steps

    def step(
        self,
        function: Callable[P, T],
        /,
        *args: Any,
        name: str | None = None,
        atomic: bool = False,
        retries: int | None = None,
        backoff: Backoff | Sequence[float | timedelta] | None = None,
        timeout: float | timedelta | None = None,
        **kwargs: Any,
    ) -> T:
        """Call a function once, store its result, and return it in every run.

        A step is named by its function: `charge`, then `charge#2`. Without `atomic`, the function
        may be called again if its process dies before the result is stored: give outside systems
        `idempotency_key`. With `atomic`, what it writes to the queue's database and its result are
        one commit: exactly once.

        Args:
            function: what to call, with the arguments that follow.
            name: another name, for a lambda or a partial.
            atomic: call it in the transaction that stores its result.
            retries: how often it is tried again after an error, before `StepFailed` is raised here;
                None: as often as the task has attempts. The wait between tries holds no thread.
            backoff: the wait before each further try; None: the task's.
            timeout: seconds or a timedelta after which `StepTimeout` is raised in a try.

        Returns:
            The function's return value, which takes 64 KiB at most as JSON.

        Raises:
            StepFailed: it has failed each time; so it is raised in each later run, too.
            InvalidStep: its name, an option or its place is invalid.
            InvalidResult: its result is not storable.
            LeaseLost: this run has lost the message. End the run: nothing more is recorded.
        """
        options = StepOptions.checked(self.task, retries, backoff, timeout)
        place = trying.place(self, function, name, atomic=atomic)
        returned: T = trying.run(self, place, options, function, args, kwargs)
        return returned

    async def astep(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: Any,
        name: str | None = None,
        atomic: bool = False,
        retries: int | None = None,
        backoff: Backoff | Sequence[float | timedelta] | None = None,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 (of each try)
        **kwargs: Any,
    ) -> T:
        """Call a coroutine function, or a function, as a step of an async durable task."""
        options = StepOptions.checked(self.task, retries, backoff, timeout)
        place = trying.place(self, function, name, atomic=atomic)
        returned: T = await trying.arun(self, place, options, function, args, kwargs)
        return returned

    def atomic(self, name: str) -> AtomicBlock:
        """Return a block that is an atomic step: `with run.atomic("reserve") as step:`.

        The body, what it writes to the queue's database and `step.result` are one commit. A later
        run skips the body. An error in the body is raised, and rolls it back: the next run begins
        the block anew.

        Raises:
            InvalidStep: the name is invalid, or the block's place.
        """
        own = self._next(name)
        found = self.records.find(own)
        if found is not None and found.kind != "atomic":
            raise InvalidStep(
                f"The step {own!r} was no block in an earlier run: give another name."
            )
        step = found or self.records.new(own, "atomic", state="retrying", tries=0)
        return AtomicBlock(self, own, step, is_done=step.state == "done")

    @property
    def idempotency_key(self) -> str:
        """A text that is the same in all tries of the step that is under way, and in no other one.

        InvalidStep is raised outside of a step.
        """
        if self.step_name is None:
            raise InvalidStep("idempotency_key belongs to a step: read it in the step's function.")
        # A run that continues anew has the same id, and its steps have the same names.
        run = f"{self.id} {self.claim.created_at.timestamp()} {self.metadata.get('continued', 0)}"
        return str(uuid5(NAMESPACE_OID, f"pgqueue {run} {self.step_name}"))

    @property
    def has_progressed(self) -> bool:
        """Whether failures are counted anew: this run has finished a step."""
        return self.records.has_progressed

    def unstored(self) -> str | None:
        """Return the side values that no step has stored, as JSON."""
        return self.records.take_unstored()

    # --- Side values

    def now(self) -> datetime:
        """Return the time at which this place was passed first."""
        return self._value("now", timezone.now)

    def random(self) -> float:
        """Return a random number from 0 to 1, the same in each run."""
        return self._value("random", random.random)

    def uuid(self) -> UUID:
        """Return a random UUID, the same in each run."""
        return self._value("uuid", uuid4)

    def patched(self, change: str) -> bool:
        """Return whether a change of the code holds for this run.

        True where no run of the message has passed this place before. Use it where new code would
        contradict what older code has done: `if run.patched("2026-12"): …`. A run with a step that
        the code no longer has counts as one that has passed.
        """
        return self._value(f"patched:{change}", lambda: not self.records.is_replaying())

    def _value(self, base: str, make: Callable[[], T]) -> T:
        name = self._next(base)
        found = self.records.find(name)
        if found is None:
            made = make()
            found = self.records.new(name, "value", result=self.records.sealed(ANYTHING.dump(made)))
            self.records.note_value(found)
        value: T = ANYTHING.read(self.records.opened(found.result or "null"))
        return value

    # --- Waits

    def sleep(self, duration: float | timedelta | datetime, *, name: str | None = None) -> None:
        """Wait for a duration, or until a time; no worker and no thread is held meanwhile.

        Args:
            duration: seconds, a timedelta or an aware datetime.
            name: shown where the message's steps are shown.

        Raises:
            InvalidStep: the duration is invalid.
        """
        until = Until.checked("sleep() for ", duration, is_required=True)
        waiting.sleep(self, self._next(name or "sleep"), until)

    @overload
    def wait_for(
        self,
        name: str,
        type: type[T],
        *,
        timeout: float | timedelta | datetime | None = ...,
        required: bool = ...,
    ) -> T | None: ...

    @overload
    def wait_for(
        self,
        name: str,
        type: None = ...,
        *,
        timeout: float | timedelta | datetime | None = ...,
        required: bool = ...,
    ) -> Any: ...

    def wait_for(
        self,
        name: str,
        type: Any = None,
        *,
        timeout: float | timedelta | datetime | None = None,
        required: bool = False,
    ) -> Any:
        """Wait for a signal, and return its payload. A signal that came before counts.

        Several signals of one name are taken in their order, by one wait each.

        Args:
            name: the signal's.
            type: the type hint of its payload.
            timeout: seconds, a timedelta or an aware datetime, after which the wait ends.
            required: whether to raise WaitTimeout then; otherwise None is returned.

        Raises:
            WaitTimeout: the time is over, and `required`.
            UnreadablePayload: the payload is not of this type.
            InvalidStep: the name or the timeout is invalid.
        """
        until = Until.checked("timeout=", timeout)
        taken = waiting.signal(self, self._next(f"wait:{name}"), [name], until, type)
        if taken is None:
            return self._in_vain(f"signal {name!r}", required)
        return waiting.payload(self, taken, type)

    def wait_for_any(
        self, names: Sequence[str], *, timeout: float | timedelta | datetime | None = None
    ) -> Signal | None:
        """Wait for the first signal of these names; None: the time is over.

        Raises:
            InvalidStep: a name or the timeout is invalid.
        """
        if isinstance(names, str) or not names or not all(isinstance(each, str) for each in names):
            raise InvalidStep(f"{names!r:.99}: wait_for_any() needs a list of names of signals.")
        until = Until.checked("timeout=", timeout)
        own = self._next(f"wait:{'|'.join(names)}".encode()[:NAME_BYTES].decode(errors="ignore"))
        taken = waiting.signal(self, own, names, until)
        return None if taken is None else Signal(taken["name"], waiting.payload(self, taken, None))

    @overload
    def wait_for_event(
        self,
        topic: type[E],
        *,
        key: str | None = ...,
        where: Mapping[str, Any] | None = ...,
        after: int | None = ...,
        timeout: float | timedelta | datetime | None = ...,
        required: bool = ...,
    ) -> E | None: ...

    @overload
    def wait_for_event(
        self,
        topic: str,
        *,
        key: str | None = ...,
        where: Mapping[str, Any] | None = ...,
        after: int | None = ...,
        timeout: float | timedelta | datetime | None = ...,
        required: bool = ...,
    ) -> RecordedEvent | None: ...

    def wait_for_event(
        self,
        topic: Any,
        *,
        key: str | None = None,
        where: Mapping[str, Any] | None = None,
        after: int | None = None,
        timeout: float | timedelta | datetime | None = None,
        required: bool = False,
    ) -> Any:
        """Wait for an event of the log, and return it.

        No event is missed that was published after this message was enqueued, in whatever order
        transactions commit. Publishers don't know of the wait.

        Args:
            topic: a topic, without wildcards, or a class of typed events.
            key: the event's key; None: any.
            where: conditions on the payload, as of `read()`.
            after: a position of the log: only events after it count; None: those that were
                published after this message was enqueued.
            timeout: seconds, a timedelta or an aware datetime, after which the wait ends.
            required: whether to raise WaitTimeout then; otherwise None is returned.

        Returns:
            The event; a typed one, if `topic` is a class.

        Raises:
            WaitTimeout: the time is over, and `required`.
            InvalidStep, InvalidEvent, InvalidFilter: an argument is invalid.
            EventsRemoved: retention has removed events that were not looked at.
        """
        wanted = Wanted.checked(topic, key, where)
        until = Until.checked("timeout=", timeout)
        found = waiting.event(self, self._next(f"event:{wanted.topic}"), wanted, after, until)
        if found is None:
            return self._in_vain(f"event {wanted.topic!r}", required)
        return wanted.read(found)

    def _in_vain(self, what: str, required: bool) -> None:
        if required:
            raise WaitTimeout(f"No {what} came to {self.task.name} #{self.id} in time.")

    def _next(self, base: str) -> str:
        """Return the name of the next step, if a step may begin here."""
        self.check_place()
        return self.records.next_name(base)

    # --- Other messages

    def call(self, task: Any, /, *args: Any, **kwargs: Any) -> PendingCall[Any]:
        """Return a call of another task, for `gather`. Nothing is stored yet."""
        return PendingCall(task, args, kwargs)

    def gather(
        self,
        calls: Iterable[PendingCall[Any]],
        *,
        on_failure: OnFailure = "raise",
        cancels: bool = False,
        name: str | None = None,
    ) -> list[Any]:
        """Store messages once, wait until all have ended, and return their results in their order.

        No worker and no thread is held meanwhile.

        Args:
            calls: `run.call(task, …)` each.
            on_failure: "raise": raise the `ParentFailed` of the first message that did not succeed;
                "return": return it in place of its result.
            cancels: cancel the messages if this one is cancelled, or ends in another way, before.
            name: of the step.

        Raises:
            ParentFailed: a message is dead, cancelled, discarded or expired.
            InvalidStep: a call or an option is invalid.
            InvalidFlow: one of the messages would wait for this one.
            InvalidArguments, ChannelFull, DuplicateMessage: as `enqueue()` raises them.
            InvalidResult: the results take more than 16 MiB together.
        """
        if on_failure not in ON_FAILURE:
            raise InvalidStep(
                f"on_failure={on_failure!r:.99}: it must be one of {', '.join(ON_FAILURE)}."
            )
        own = self._next(name or "gather")
        found = self.records.find(own)
        if found is None:
            draft = calling.gathered(self, own, calls)
            if not len(draft):
                return []
            step = self.records.new(own, "call", state="waiting")
            draft.store_awaited(step, cancels=cancels)
            draft.tell_stored()
            waiting.suspend(self)
        if found.state == "waiting":
            results = calling.results(self, found)
            if results is None:
                waiting.suspend(self)
            found = self.records.store(found._replace(state="done", result=results))
        return calling.values(self.records.opened(found.result or ""), on_failure)

    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
        """Store another message once, and go on without waiting for it.

        Raises:
            InvalidStep: it is no task, or its messages are stored in another database.
            InvalidArguments, ChannelFull, DuplicateMessage: as `enqueue()` of the task does.
        """
        name = calling.check_task(self, task).name.rpartition(".")[2]
        return calling.enqueue(self, self._next(f"enqueue:{name}"), task, args, kwargs)

    def continue_as(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this run, and begin the task anew with these arguments, without steps.

        For loops that never end. It is the same message: it keeps its id, its dedupe key, its place
        in a flow and in an ordered lane, and the signals that no step has taken.

        Raises:
            InvalidArguments: the arguments do not fit the task.
            Suspend: always, else. The worker catches it.
        """
        self.check_place()
        raise Suspend(Continued(self.task.codec.encode(args, kwargs)))

    def cancel(self, reason: str = "") -> Cancel:
        """Return an exception that ends the message as cancelled: `raise run.cancel("why")`."""
        return Cancel(reason) if reason else Cancel()

    # --- What steps are checked for

    def check_place(self) -> None:
        """Check that a step may begin here and now.

        Raises:
            InvalidStep: in another step, or in a transaction that the task has opened.
            Suspend: the worker is about to stop.
            Cancel: cancelling the message was requested.
            TaskTimeout: the run exceeded its timeout.
        """
        self._check_time()
        if self.step_name is not None:
            raise InvalidStep(
                f"A step can't begin in the step {self.step_name!r}: call it after that one."
            )
        if self._is_inside():
            raise InvalidStep(
                "A step can't begin in a transaction: what is stored of it would be rolled back "
                "with it. Leave the block of atomic() first, or use step(…, atomic=True)."
            )
        if self.run.cancelled:
            raise Cancel
        if self.run.stopping:
            raise Suspend(HandedBack())

    def _is_inside(self) -> bool:
        """Return whether the task has opened a transaction."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            return False  # here, Django has no connection
        return savepoints(self.database) != self._outside

    @contextmanager
    def in_step(self, name: str) -> Iterator[None]:
        """Note which step is under way."""
        self.step_name = name
        try:
            with tracing.step(self, name):
                yield
        finally:
            self.step_name = None

    # --- For async tasks

    async def agather(self, calls: Iterable[PendingCall[Any]], **options: Any) -> list[Any]:
        """Store messages and wait for them, from async code."""
        return await sync_to_async(self.gather)(calls, **options)

    async def aenqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
        """Store another message once, from async code."""
        return await sync_to_async(self.enqueue)(task, *args, **kwargs)

    async def await_for_any(self, names: Sequence[str], **options: Any) -> Signal | None:
        """Wait for the first signal of these names, from async code."""
        return await sync_to_async(self.wait_for_any)(names, **options)

    async def await_for_event(self, topic: Any, **options: Any) -> Any:
        """Wait for an event, from async code."""
        return await sync_to_async(self.wait_for_event)(topic, **options)

    async def asleep(
        self, duration: float | timedelta | datetime, *, name: str | None = None
    ) -> None:
        """Wait, from async code."""
        await sync_to_async(self.sleep)(duration, name=name)

    async def await_for(self, name: str, type: Any = None, **options: Any) -> Any:
        """Wait for a signal, from async code."""
        return await sync_to_async(self.wait_for)(name, type, **options)


contexts["durable"] = DurableContext
