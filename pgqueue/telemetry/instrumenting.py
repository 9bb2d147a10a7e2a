"""Begin and end the tracing and measuring of this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import Any

from django.db import connections
from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import INVALID_SPAN, Span, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pgqueue.calls import tracing
from pgqueue.calls.outcomes import Ending
from pgqueue.engine import flows
from pgqueue.engine.values import Claim
from pgqueue.events.recorded import RecordedEvent
from pgqueue.tasks import TaskContext, redacting
from pgqueue.tasks.delivery import Delivery
from pgqueue.tasks.run_middleware import around_runs, remove
from pgqueue.telemetry.carried import (
    MESSAGE,
    MOST_LINKS,
    MessageOrigin,
    carriers_of,
    links_to,
    origin,
)
from pgqueue.telemetry.gauges import forget
from pgqueue.telemetry.instruments import Instruments
from pgqueue.telemetry.spans import Attributes, Processing, ProducerSpan, StepSpan, harmless
from pgqueue.values.version import VERSION

NAME = "pgqueue"
ATTEMPT = "messaging.pgqueue.message.attempt"
KEY = "messaging.pgqueue.message.key"
FLOW = "messaging.pgqueue.flow.id"


def instrument(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Trace and measure enqueueing, publishing and runs; a repeated call is harmless.

    Call it once in each process, in `AppConfig.ready()`. Storing messages makes a span of the kind
    PRODUCER, and the messages carry its context in their metadata. Each attempt makes a span of
    the kind CONSUMER, which is a child of the first one and linked to it.

    Args:
        tracer_provider, meter_provider: OpenTelemetry's providers; None: the global ones. If
            none is configured, no span is recorded, and messages carry the current context.
    """
    if tracing.tracer is None:
        tracer = trace.get_tracer(NAME, VERSION, tracer_provider)
        meter = metrics.get_meter(NAME, VERSION, meter_provider)
        instrumented = _Instrumented(tracer, Instruments(meter))
        tracing.tracer = instrumented
        around_runs(instrumented.run)


def uninstrument() -> None:
    """End the tracing and measuring, and the gauges of queues."""
    forget()
    instrumented, tracing.tracer = tracing.tracer, None
    if isinstance(instrumented, _Instrumented):
        remove(instrumented.run)


@contextmanager
def processing(*received: Delivery | RecordedEvent) -> Iterator[Span]:
    """Make a span around the processing of deliveries or of read events.

        with receive("mail", wait=5) as deliveries:
            for delivery in deliveries:
                with processing(delivery):
                    post(delivery.payload)
                    delivery.complete()

    A current span becomes its parent. Without `instrument()`, it does nothing.
    """
    instrumented = tracing.tracer
    if not isinstance(instrumented, _Instrumented) or not received:
        yield INVALID_SPAN
        return
    with instrumented.processing(received) as span:
        yield span


class _Instrumented:
    """Makes the spans for `tracing`."""

    def __init__(self, tracer: trace.Tracer, instruments: Instruments) -> None:
        self._tracer = tracer
        self._instruments = instruments

    def sending(
        self,
        operation: tracing.Operation,
        destination: str | None,
        *,
        task: str | None,
        count: int,
    ) -> ProducerSpan:
        """Return the span of storing messages."""
        return ProducerSpan(
            self._tracer, self._instruments, operation, destination, task=task, count=count
        )

    def run(self, context: TaskContext) -> AbstractContextManager[Any]:
        """Return the span of a run."""
        return _RunSpan(self._tracer, self._instruments, context)

    def step(self, context: TaskContext, name: str) -> AbstractContextManager[Any]:
        """Return the span of a try of a step."""
        claim = context.claim
        attributes: Attributes = {MESSAGE: str(claim.id), ATTEMPT: claim.attempt}
        return StepSpan(self._tracer, name, attributes, lambda: redacting.hiding_run(context))

    def handling(self, group: str, events: Sequence[RecordedEvent]) -> AbstractContextManager[Any]:
        """Return the span of a group's handler for some events."""
        return self._events(events, {"messaging.consumer.group.name": group})

    def processing(self, received: Sequence[Delivery | RecordedEvent]) -> Processing:
        """Return the span in which a program processes deliveries or events."""
        deliveries = [each for each in received if isinstance(each, Delivery)]
        events = [each for each in received if isinstance(each, RecordedEvent)]
        if not deliveries:
            return self._events(events, {})
        attributes: Attributes = {"messaging.batch.message_count": len(received)}
        if len(received) == 1:
            attributes = _of_message(deliveries[0].claim, deliveries[0].metadata)
        return Processing(
            self._tracer,
            self._instruments,
            lambda: origin([*chain(*map(_carriers, deliveries)), *map(_metadata, events)]),
            lambda: redacting.hiding_of([each.claim for each in deliveries], events),
            destination=_only(each.channel for each in deliveries),
            task=_only(each.task for each in deliveries) or "",
            attributes=attributes,
            is_nested=True,
        )

    def _events(self, events: Sequence[RecordedEvent], attributes: Attributes) -> Processing:
        if len(events) == 1:
            attributes["messaging.message.id"] = str(events[0].position)
        else:
            attributes["messaging.batch.message_count"] = len(events)
        return Processing(
            self._tracer,
            self._instruments,
            lambda: origin(map(_metadata, events)),
            lambda: redacting.hiding_of_events(events),
            destination=_only(event.topic for event in events),
            task=None,
            attributes=attributes,
            is_nested=True,
        )

    def prepare(self, context: TaskContext) -> None:
        """Read the origins of a message's parents in a flow, for the links of its span."""
        claim = context.claim
        if claim.flow_id is not None:
            context.waited_for = flows.origins(
                connections[context.database], claim.flow_id, claim.id, limit=MOST_LINKS
            )

    def finished(self, context: TaskContext, ending: Ending) -> None:
        """Count a run."""
        with harmless:
            self._instruments.ended(context.claim.channel, context.task.name, ending)

    def headers(self) -> Mapping[str, str]:
        """Return the header `traceparent` of the current span, without the other headers."""
        carrier: dict[str, str] = {}
        with harmless:
            TraceContextTextMapPropagator().inject(carrier)
        return {name: value for name, value in carrier.items() if name == "traceparent"}


class _RunSpan(Processing):
    """The span of a run."""

    def __init__(
        self, tracer: trace.Tracer, instruments: Instruments, context: TaskContext
    ) -> None:
        claim = context.claim
        super().__init__(
            tracer,
            instruments,
            lambda: _origin_of(context),
            lambda: redacting.hiding_run(context),
            destination=claim.channel,
            task=context.task.name,
            attributes=_of_message(claim, context.metadata),
        )
        self._context = context

    def failure(self, error: BaseException | None) -> BaseException | None:
        """Return an error if it is a failure of a message that was not cancelled, or None."""
        return None if self._context.cancelled else super().failure(error)


def _origin_of(context: TaskContext) -> MessageOrigin:
    """Return the origin of a run's message, with links to the spans of its parents."""
    parent, links = origin(carriers_of(context.claim, context.metadata))
    if not context.waited_for:
        return MessageOrigin(parent, links)
    return MessageOrigin(parent, [*links, *links_to(context.waited_for)][:MOST_LINKS])


def _of_message(claim: Claim, metadata: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {
        MESSAGE: str(claim.id),
        ATTEMPT: claim.attempt,
    }
    if claim.key:
        attributes[KEY] = claim.key
    if claim.flow_id is not None:
        attributes[FLOW] = str(claim.flow_id)
    if isinstance(subscription := metadata.get("subscription"), str):
        attributes["messaging.destination.subscription.name"] = subscription
    return attributes


def _carriers(delivery: Delivery) -> Sequence[Mapping[str, Any]]:
    return carriers_of(delivery.claim, delivery.metadata)


def _metadata(event: RecordedEvent) -> Mapping[str, Any]:
    return event.metadata


def _only(names: Iterable[str]) -> str | None:
    """Return the one name among these; None: the names differ."""
    found = set(names)
    return found.pop() if len(found) == 1 else None
