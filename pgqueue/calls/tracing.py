"""Where traces come in: what stores and handles messages and events asks here.

`telemetry.instrument()` sets who answers. Until then nothing is traced, and nothing of
OpenTelemetry is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

from pgqueue.calls.outcomes import Ending

Operation = Literal["send", "create"]


class Sending(Protocol):
    """Messages or events that are being stored: the span of that, entered as a context manager."""

    def __enter__(self) -> Sending:
        """Begin."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """End, perhaps with an error."""

    def metadata(self, given: str) -> str:
        """Return a JSON object's text with the context of the trace added."""

    def stored(self, ids: Iterable[Any], came_of: Iterable[str]) -> None:
        """Note the outcome of each message."""


class Tracer(Protocol):
    """Traces runs and messages."""

    def sending(
        self, operation: Operation, destination: str | None, *, task: str | None, count: int
    ) -> Sending:
        """Return the span of storing `count` messages of a task, or events, of which task is None.

        Args:
            operation: create: they are stored later, by another thread.
            destination: the channel or the topic; None: there are several.
        """

    def handling(self, group: str, events: Sequence[Any]) -> AbstractContextManager[Any]:
        """Return the span in which the handler of a group handles events."""

    def step(self, context: Any, name: str) -> AbstractContextManager[Any]:
        """Return the span of a try of a durable task's step."""

    def prepare(self, context: Any) -> None:
        """Read from the database what the span of a run of a flow's message needs."""

    def finished(self, context: Any, ending: Ending) -> None:
        """Note how a run has ended."""

    def headers(self) -> Mapping[str, str]:
        """Return headers of HTTP by which the trace goes on elsewhere."""


tracer: Tracer | None = None


class _Untraced:
    """Stores messages without a span."""

    def __enter__(self) -> Sending:
        return self

    def __exit__(self, *_: object) -> None: ...

    def metadata(self, given: str) -> str:
        return given

    def stored(self, ids: Iterable[Any], came_of: Iterable[str]) -> None: ...


_UNTRACED = _Untraced()
_NOTHING: AbstractContextManager[Any] = nullcontext()


def sending(
    destination: str | None,
    *,
    task: str | None = None,
    count: int = 1,
    operation: Operation = "send",
) -> Sending:
    """Return the span in which messages are stored. See `Tracer.sending`.

    Each way to store messages or events enters it: a trace ends where one does not.
    """
    if tracer is None:
        return _UNTRACED
    return tracer.sending(operation, destination, task=task, count=count)


def handling(group: str, events: Sequence[Any]) -> AbstractContextManager[Any]:
    """Return the context in which the handler of a group is called."""
    return _NOTHING if tracer is None else tracer.handling(group, events)


def step(context: Any, name: str) -> AbstractContextManager[Any]:
    """Return the context in which a step of a durable task is called."""
    return _NOTHING if tracer is None else tracer.step(context, name)


def prepare(context: Any) -> None:
    """Read from the database what the span of a run of a flow's message needs."""
    if tracer is not None:
        tracer.prepare(context)


def headers() -> Mapping[str, str]:
    """Return headers for requests that go elsewhere."""
    return {} if tracer is None else tracer.headers()
