"""The waits of a durable run: for a time, for signals, for events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from asgiref.sync import sync_to_async

from pgqueue.durable import waiting
from pgqueue.durable.records import NAME_BYTES
from pgqueue.durable.step_context import StepContext
from pgqueue.durable.suspending import Until
from pgqueue.durable.waiting import Signal, Wanted
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidStep, WaitTimeout

T = TypeVar("T")
E = TypeVar("E", bound=Event)


@dataclass(eq=False)
class WaitingContext(StepContext):
    """The part of a `DurableContext` that waits. No worker and no thread is held meanwhile."""

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
            timeout: the end of the wait: seconds, a timedelta or an aware datetime.
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
        """Wait for the first signal with one of the names; return None if the time is over.

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
            timeout: the end of the wait: seconds, a timedelta or an aware datetime.
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

    async def asleep(
        self, duration: float | timedelta | datetime, *, name: str | None = None
    ) -> None:
        """Wait, from async code."""
        await sync_to_async(self.sleep)(duration, name=name)

    async def await_for(
        self,
        name: str,
        type: Any = None,
        *,
        timeout: float | timedelta | datetime | None = None,  # noqa: ASYNC109 (of days)
        required: bool = False,
    ) -> Any:
        """Wait for a signal, from async code."""
        return await sync_to_async(self.wait_for)(name, type, timeout=timeout, required=required)

    async def await_for_any(
        self,
        names: Sequence[str],
        *,
        timeout: float | timedelta | datetime | None = None,  # noqa: ASYNC109 (of days)
    ) -> Signal | None:
        """Wait for the first signal with one of the names, from async code."""
        return await sync_to_async(self.wait_for_any)(names, timeout=timeout)

    async def await_for_event(
        self,
        topic: Any,
        *,
        key: str | None = None,
        where: Mapping[str, Any] | None = None,
        after: int | None = None,
        timeout: float | timedelta | datetime | None = None,  # noqa: ASYNC109 (of days)
        required: bool = False,
    ) -> Any:
        """Wait for an event, from async code."""
        return await sync_to_async(self.wait_for_event)(
            topic, key=key, where=where, after=after, timeout=timeout, required=required
        )
