"""The first argument of a durable task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from pgqueue.calls.outcomes import Continued
from pgqueue.durable import calling, trying
from pgqueue.durable.blocks import AtomicBlock
from pgqueue.durable.calling import ON_FAILURE, OnFailure, PendingCall
from pgqueue.durable.links import Linking
from pgqueue.durable.suspending import suspend
from pgqueue.durable.trying import StepOptions
from pgqueue.durable.waiting_context import WaitingContext
from pgqueue.events.typed import Event
from pgqueue.exceptions import Cancel, InvalidStep, Suspend
from pgqueue.options.retries import Backoff
from pgqueue.tasks.context import contexts
from pgqueue.tasks.result import TaskResult

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=Event)


@dataclass(eq=False)
class DurableContext(Linking, WaitingContext):
    """The first argument of a durable task: its steps and its waits.

    The function is called again from its top whenever it goes on. Code in a step is not
    run again; code between steps is. Steps are found by their names.
    """

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
            name: another name. Lambdas and partials need one.
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
        returned: T = await trying.run_awaited(self, place, options, function, args, kwargs)
        return returned

    def atomic(self, name: str) -> AtomicBlock:
        """Return a block that is an atomic step: `with run.atomic("reserve") as step:`.

        The body, what it writes to the queue's database and `step.result` are one commit. A later
        run skips the body. An error in the body is raised, and rolls it back: the next run begins
        the block again.

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
            on_failure: "raise" raises the `ParentFailed` of the first message without success.
                "return" returns it in place of the result.
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
            suspend(self)
        if found.state == "waiting":
            results = calling.results(self, found)
            if results is None:
                suspend(self)
            found = self.records.store(found._replace(state="done", result=results))
        return calling.values(self.records.opened(found.result or ""), on_failure)

    async def agather(
        self,
        calls: Iterable[PendingCall[Any]],
        *,
        on_failure: OnFailure = "raise",
        cancels: bool = False,
        name: str | None = None,
    ) -> list[Any]:
        """Store messages and wait for them, from async code."""
        return await sync_to_async(self.gather)(
            calls, on_failure=on_failure, cancels=cancels, name=name
        )

    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
        """Store another message once, and go on without waiting for it.

        Raises:
            InvalidStep: it is no task, or its messages are stored in another database.
            InvalidArguments, ChannelFull, DuplicateMessage: as `enqueue()` of the task does.
        """
        name = calling.check_task(self, task).name.rpartition(".")[2]
        return calling.enqueue(self, self._next(f"enqueue:{name}"), task, args, kwargs)

    async def aenqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
        """Store another message once, from async code."""
        return await sync_to_async(self.enqueue)(task, *args, **kwargs)

    def continue_as(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this run, and begin the task again with other arguments, without steps.

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


contexts["durable"] = DurableContext
