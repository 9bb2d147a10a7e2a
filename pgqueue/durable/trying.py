"""Call a step's function, and store what became of it."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any, NamedTuple, Protocol, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections
from psycopg.errors import LockNotAvailable

from pgqueue.calls.outcomes import HandedBack
from pgqueue.calls.stand_ins import stand_in
from pgqueue.codec.arguments import Codec
from pgqueue.codec.encoding import ExactHint
from pgqueue.codec.encrypted import EncryptedCodec
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.durable.records import StepCipher, waiting_row
from pgqueue.durable.suspending import SuspendableRun, Until, suspend
from pgqueue.engine import lease
from pgqueue.engine.errors import RERUNS, describe, is_conflict, pause
from pgqueue.engine.steps import Kind, StoredStep
from pgqueue.exceptions import (
    InvalidResult,
    InvalidStep,
    LeaseLost,
    StepFailed,
    StepTimeout,
    Suspend,
    TaskTimeout,
)
from pgqueue.options.retries import Backoff, as_backoff
from pgqueue.tasks import redacting
from pgqueue.tasks.context import Limited, RunState
from pgqueue.tasks.declaration import Declaration
from pgqueue.tasks.redacting import RedactedColumn
from pgqueue.values.number_checks import as_count, as_duration, as_timedelta

T = TypeVar("T")


class StepRun(SuspendableRun, Protocol):
    """The run that a step is part of: a `DurableContext`."""

    limited: Limited | None
    run: RunState

    def check_place(self) -> None:
        """Check that a step may begin here and now."""

    def stored_columns(self) -> Iterable[RedactedColumn]:
        """Return the results of its steps, to search them for redacted values."""

    def in_step(self, name: str) -> AbstractContextManager[None]:
        """Note which step is under way."""

    def failed(self, failures: int) -> Any:
        """Return the message as a backoff gets it, with this number of failures."""


@dataclass(frozen=True)
class StepOptions:
    """How a step is tried.

    Attributes:
        tries: how often, at most.
        backoff: the wait before each further try.
        timeout: how long a try may take; None: as long as the run.
    """

    tries: int
    backoff: Backoff
    timeout: timedelta | None = None

    @classmethod
    def checked(
        cls,
        task: Declaration[Any, Any],
        retries: int | None,
        backoff: Backoff | Sequence[float | timedelta] | None,
        timeout: float | timedelta | None = None,
    ) -> StepOptions:
        """Return the options of a step; what is None is as its task has it.

        Raises:
            InvalidStep: one of them is invalid.
        """
        try:
            if retries is None:
                tries = task.max_attempts or settings().max_attempts
            else:
                tries = as_count(retries, least=0, most=10_000) + 1
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"retries={retries!r:.99}: {error}") from error
        try:
            own = None if backoff is None else as_backoff(backoff)
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"backoff={backoff!r:.99}: {error}") from error
        try:
            longest = None if timeout is None else as_duration(timeout)
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"timeout={timeout!r:.99}: {error}") from error
        return cls(tries, own or task.backoff or settings().backoff, longest)

    def limiting(self, run: StepRun) -> AbstractContextManager[None]:
        """Raise StepTimeout in a block that takes longer than the timeout."""
        if self.timeout is None or run.limited is None:
            return nullcontext()
        return run.limited(time.monotonic() + self.timeout.total_seconds(), StepTimeout)


class StepCodec(Codec):
    """Writes and reads the results of a step's function; refuses a result of another class."""

    result_hint = ExactHint


class EncryptedStepCodec(EncryptedCodec):
    """As `StepCodec`, of an encrypted task."""

    result_hint = ExactHint


class StepPlace(NamedTuple):
    """A step where the code calls it.

    Attributes:
        name: the name that is its own in the run.
        function: the name of the function that it calls.
        is_named: whether the code gives the name, so that the function may be another one.
        codec: reads and writes its result.
    """

    name: str
    function: str
    codec: Codec
    is_atomic: bool
    is_named: bool

    def has_become(self, found: StoredStep) -> bool:
        """Return whether this is the step that an earlier run has stored under the name."""
        is_same = self.is_named or found.function == self.function
        return found.kind in ("step", "atomic") and is_same


def place(run: StepRun, function: Any, name: str | None, *, atomic: bool) -> StepPlace:
    """Return the next step of this function and name.

    Raises:
        InvalidStep: the function or the name is invalid, or another function has the name.
    """
    run.check_place()
    called = function.func if isinstance(function, Declaration) else function
    if not callable(called):
        raise InvalidStep(f"{function!r:.99} can't be a step: it is no function.")
    known = getattr(called, "__qualname__", "")
    base = name if name is not None else getattr(called, "__name__", "")
    if not base or base == "<lambda>":
        raise InvalidStep(f"{function!r:.99} has no name by which a step is found: give it name=.")
    run.records.check_function(base, f"{getattr(called, '__module__', '')}.{known}")
    codec = _codec(called, run.task.name, is_encrypted=run.task.encrypted)
    return StepPlace(run.records.next_name(base), known, codec, atomic, name is not None)


def _codec(function: Callable[..., Any], task: str, *, is_encrypted: bool) -> Codec:
    # A function that each run makes again must not stay in a cache, with its closure.
    is_of_module = inspect.isfunction(function) and "<locals>" not in function.__qualname__
    return (_kept_codec if is_of_module else _new_codec)(function, task, is_encrypted)


def _new_codec(function: Callable[..., Any], task: str, is_encrypted: bool) -> Codec:
    return (EncryptedStepCodec if is_encrypted else StepCodec)(function, cipher=StepCipher(task))


_kept_codec = cache(_new_codec)


def run(
    run: StepRun,
    place: StepPlace,
    options: StepOptions,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return the stored result of a step, or call its function now."""
    step = _begun(run, place)
    if step.state != "done" and not place.is_atomic:
        step = run.records.keep_values(step)
    if step.state == "done":
        return _result(place, step)
    call = partial(_called(function), *args, **kwargs)
    began = time.monotonic()
    try:
        with run.in_step(place.name), options.limiting(run):
            if place.is_atomic:
                return _atomic(run, place, step, call, began)
            value = guard.call(call)
            result = guard.call(place.codec.encode_result, value)
    except Exception as error:
        return _fail(run, place, options, step, error, began)
    return _store(run, place, step, value, result, began)


async def run_awaited(
    run_: StepRun,
    place: StepPlace,
    options: StepOptions,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return the stored result of a step, or call its function now, in this event loop."""
    if place.is_atomic or not inspect.iscoroutinefunction(function):
        return await sync_to_async(run)(run_, place, options, function, args, kwargs)
    step = await sync_to_async(_begun)(run_, place)
    if step.state != "done":
        step = await sync_to_async(run_.records.keep_values)(step)
    if step.state == "done":
        return await sync_to_async(_result)(place, step)
    began = time.monotonic()
    try:
        with run_.in_step(place.name):
            value = await _within(options.timeout, function(*args, **kwargs))
            result = place.codec.encode_result(value)
    except Exception as error:
        return await sync_to_async(_fail)(run_, place, options, step, error, began)
    return await sync_to_async(_store)(run_, place, step, value, result, began)


async def _within(limit: timedelta | None, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine.

    Raises:
        StepTimeout: it took longer than the timeout.
    """
    if limit is None:
        return await coroutine
    timer = asyncio.timeout(limit.total_seconds())
    try:
        async with timer:
            return await coroutine
    except TimeoutError as error:
        if timer.expired():
            raise StepTimeout from error
        raise


def _called(function: Any) -> Callable[..., Any]:
    called = function.func if isinstance(function, Declaration) else function
    return async_to_sync(called) if inspect.iscoroutinefunction(called) else called


def _begun(run: StepRun, place: StepPlace) -> StoredStep:
    """Return the step as it is stored, or a new one.

    Raises:
        StepFailed: it has failed for good.
        InvalidStep: another function was called under its name.
        Suspend: the time of its next try has not come.
    """
    found = run.records.find(place.name)
    if found is None:
        kind: Kind = "atomic" if place.is_atomic else "step"
        return run.records.new(place.name, kind, function=place.function, state="retrying", tries=0)
    if not place.has_become(found):
        raise InvalidStep(
            f"The step {place.name!r} was {found.function or found.kind} in an earlier run, and is "
            f"{place.function} now. If it is the same step, give name={place.name!r}, else another "
            "name."
        )
    if found.state == "failed":
        raise _failure(place, found)
    if found.state == "retrying" and not found.is_over:
        suspend(run, Until(time=found.until), waiting_row(found))
    return found


def _atomic(
    run: StepRun, place: StepPlace, step: StoredStep, call: Callable[[], Any], began: float
) -> Any:
    """Call the function in the transaction that stores its result; again after a conflict."""
    reruns = RERUNS
    while True:
        try:
            with run.records.transaction():
                lock_message(run)
                value = guard.call(call)
                result = guard.call(place.codec.encode_result, value)
                return _store(run, place, step, value, result, began)
        except Exception as error:
            if not is_conflict(error) or not reruns or connections[run.database].in_atomic_block:
                raise
        finally:
            run.run.lock = None
        reruns -= 1
        time.sleep(pause())


def lock_message(run: StepRun) -> None:
    """Lock the message's row in a transaction that has just begun.

    Heartbeat and rescue skip a locked row. At the end of the transaction, set `run.run.lock` to
    None.

    Raises:
        LeaseLost: this run has lost its message, and must write nothing.
        Suspend: another transaction has it locked. The settler hands it back once it is free.
    """
    connection = connections[run.database].connection
    try:
        run.run.lock = lease.lock(connection, run.claim, patience=lease.LOCKING)
    except LockNotAvailable as error:
        raise Suspend(HandedBack()) from error
    if run.run.lock is None:
        run.records.check_kept("lost")


def _store(
    run: StepRun, place: StepPlace, step: StoredStep, value: Any, result: str, began: float
) -> Any:
    """Store the result; return it, or the result that an earlier run has stored meanwhile."""
    took = timedelta(seconds=time.monotonic() - began)
    done = step._replace(state="done", result=result, error=None, tries=step.tries + 1, until=None)
    stored = run.records.store(done, took=took)
    return value if stored is done else _result(place, stored)


def _fail(
    run: StepRun,
    place: StepPlace,
    options: StepOptions,
    step: StoredStep,
    error: Exception,
    began: float,
) -> Any:
    """Store a failed try. Ends the run until the next one, or raises StepFailed.

    Returns:
        The result of the step if its commit has succeeded after all: only its answer was lost.
    """
    is_of_run = isinstance(error, TaskTimeout) and not isinstance(error, StepTimeout)
    if is_of_run or isinstance(error, LeaseLost | InvalidStep | StepFailed):
        raise error
    claim = run.claim
    shown = stand_in(error, redacting.hiding_run(run))
    entry = describe(shown, attempt=claim.attempt, worker=str(claim.worker_id))
    tries = step.tries + 1
    delay = None
    if tries < options.tries and not isinstance(error, InvalidResult):
        delay = _delay(run, options, error, tries)
    failed = step._replace(
        state="failed" if delay is None else "retrying", error=entry, tries=tries
    )
    if delay is not None:
        suspend(run, Until(delay=delay), waiting_row(failed))
    took = timedelta(seconds=time.monotonic() - began)
    stored = run.records.store(failed, took=took)
    if stored.state == "done":
        return _result(place, stored)
    raise _failure(place, stored) from error


def _delay(run: StepRun, options: StepOptions, error: Exception, tries: int) -> timedelta | None:
    delay = guard.call(options.backoff, error, run.failed(tries))
    return None if delay is None else max(as_timedelta(delay), timedelta())


def _failure(place: StepPlace, step: StoredStep) -> StepFailed:
    entry = json.loads(step.error or "{}")
    return StepFailed(
        place.name,
        entry.get("class", ""),
        entry.get("message", ""),
        entry.get("traceback", ""),
        step.tries,
    )


def _result(place: StepPlace, step: StoredStep) -> Any:
    return None if step.result is None else place.codec.decode_result(step.result)
