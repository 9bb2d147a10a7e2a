"""The spans of storing messages and of runs, as context managers.

Their names and attributes follow OpenTelemetry's semantic conventions for messaging. An error in
telemetry, for example in a sampler, is logged, and never affects the message.
"""

from __future__ import annotations

import json
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from contextvars import Token
from time import perf_counter
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace import Tracer as OTelTracer

from pgqueue.calls.stand_ins import stand_in
from pgqueue.exceptions import Cancel, Defer, Discard, Suspend
from pgqueue.redaction import Hidden
from pgqueue.telemetry.carried import EMPTY, MessageOrigin, added
from pgqueue.telemetry.instruments import SYSTEM, TASK, Instruments, name_of
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")

Attributes = dict[str, str | int]

NO_FAILURES = (Defer, Discard, Cancel, Suspend, CancelledError, GeneratorExit)
"""The exceptions that end a run without a failure."""
STEP = "messaging.pgqueue.step.name"
STORED = ("stored", "replaced", "collected")


class _Harmless:
    """Logs the errors of its block, so that the traced code goes on."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        logger.error("A trace failed", exc_info=error)
        return True


harmless = _Harmless()


class _Messaging:
    """A span that is the current one in its block.

    Args:
        destination: the channel or the topic; None: several ones.
        task: the task of the messages; None: they are events.
    """

    _span: Span = INVALID_SPAN
    _token: Token[Context] | None = None

    def __init__(
        self,
        tracer: OTelTracer,
        instruments: Instruments,
        operation: str,
        destination: str | None,
        task: str | None,
    ) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._operation = operation
        self._destination = destination
        self._task = task

    @property
    def _channel(self) -> str | None:
        # Topics may contain ids, and each id would become a time series.
        return None if self._task is None else self._destination

    def _begin(
        self,
        kind: SpanKind,
        attributes: Attributes,
        parent: Context | None = None,
        links: Sequence[Link] = (),
    ) -> None:
        self._span = self._tracer.start_span(
            named(self._operation, self._destination),
            context=parent,
            kind=kind,
            attributes=described(self._operation, self._destination, self._task) | attributes,
            links=links,
        )
        self._token = contexts.attach(trace.set_span_in_context(self._span, parent))


class ProducerSpan(_Messaging):
    """A span of the kind PRODUCER. The messages carry its context. See `tracing.Sending`."""

    def __init__(
        self,
        tracer: OTelTracer,
        instruments: Instruments,
        operation: str,
        destination: str | None,
        *,
        task: str | None,
        count: int,
    ) -> None:
        super().__init__(tracer, instruments, operation, destination, task)
        self._count = count
        self._carrier: dict[str, str] = {}
        self._alone = EMPTY

    def __enter__(self) -> ProducerSpan:
        with harmless:
            many: Attributes = {"messaging.batch.message_count": self._count}
            self._begin(SpanKind.PRODUCER, many if self._count > 1 else {})
            propagate.inject(self._carrier)
            self._alone = json.dumps(self._carrier)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with harmless:
            failed = None if error is None else name_of(error)
            self._instruments.sent(self._operation, self._channel, self._task, self._count, failed)
            if self._token is not None:
                contexts.detach(self._token)
                if failed is not None:
                    # Without the error's text, which may quote arguments. The caller gets the text.
                    self._span.set_attribute("error.type", failed)
                    self._span.set_status(Status(StatusCode.ERROR))
                self._span.end()

    def metadata(self, given: str) -> str:
        """Return a JSON object's text with the context of the trace added."""
        if given == EMPTY:
            return self._alone
        with harmless:
            return added(self._carrier, given)
        return given

    def stored(self, ids: Iterable[Any], came_of: Iterable[str]) -> None:
        """Note the outcomes of storing messages."""
        with harmless:
            if self._count == 1 and (id := next(iter(ids), None)):
                self._span.set_attribute("messaging.message.id", str(id))
            self._count = sum(each in STORED for each in came_of)


class Processing(_Messaging):
    """A span of the kind CONSUMER, a child of the span that stored the message, and linked to it.

    A span for several messages is linked to the span of each message, and begins a trace.

    Args:
        origin: returns the origin of the messages.
        hiding: returns the values to remove from the text of an error.
        is_nested: whether the current span becomes the parent, if there is one.
    """

    def __init__(
        self,
        tracer: OTelTracer,
        instruments: Instruments,
        origin: Callable[[], MessageOrigin],
        hiding: Callable[[], Hidden],
        *,
        destination: str | None,
        task: str | None,
        attributes: Attributes,
        is_nested: bool = False,
    ) -> None:
        super().__init__(tracer, instruments, "process", destination, task)
        self._origin = origin
        self._hiding = hiding
        self._attributes = attributes
        self._is_nested = is_nested
        self._began = perf_counter()

    def __enter__(self) -> Span:
        with harmless:
            parent, links = self._origin()
            if self._is_nested and trace.get_current_span().get_span_context().is_valid:
                parent = contexts.get_current()
            self._begin(SpanKind.CONSUMER, self._attributes, parent, links)
        return self._span

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with harmless:
            failure = self.failure(error)
            name = None if failure is None else name_of(failure)
            seconds = perf_counter() - self._began
            self._instruments.processed(self._channel, self._task, seconds, name)
            if self._token is not None:
                contexts.detach(self._token)
                if failure is not None and self._span.is_recording():
                    fail(self._span, stand_in(failure, self._hiding()), name_of(failure))
                self._span.end()

    def failure(self, error: BaseException | None) -> BaseException | None:
        """Return an error if it is a failure, or None."""
        return None if isinstance(error, NO_FAILURES) else error


class StepSpan:
    """The span of a try of a step, within the span of its run.

    Args:
        hiding: returns the values to remove from the text of an error.
    """

    _span: Span = INVALID_SPAN
    _token: Token[Context] | None = None

    def __init__(
        self, tracer: OTelTracer, name: str, attributes: Attributes, hiding: Callable[[], Hidden]
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._hiding = hiding

    def __enter__(self) -> Span:
        with harmless:
            self._span = self._tracer.start_span(
                named("step", self._name), attributes={STEP: self._name, **self._attributes}
            )
            self._token = contexts.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with harmless:
            if self._token is not None:
                contexts.detach(self._token)
                failure = None if isinstance(error, NO_FAILURES) else error
                if failure is not None and self._span.is_recording():
                    fail(self._span, stand_in(failure, self._hiding()), name_of(failure))
                self._span.end()


def named(operation: str, destination: str | None) -> str:
    """Return the name of a span."""
    return f"{operation} {destination}" if destination else operation


def described(operation: str, destination: str | None, task: str | None) -> Attributes:
    """Return the common attributes of all spans."""
    attributes: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if destination:
        attributes["messaging.destination.name"] = destination
    if task:
        attributes[TASK] = task
    return attributes


def fail(span: Span, error: BaseException, name: str) -> None:
    """Record the error at the end of a span."""
    span.record_exception(error)
    span.set_attribute("error.type", name)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
