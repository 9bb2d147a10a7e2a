"""Read what OpenTelemetry's SDK has in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, Tracer


class Traces:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter, tracer: Tracer) -> None:
        self._exporter = exporter
        self.tracer = tracer

    @property
    def all(self) -> list[ReadableSpan]:
        """All of them, in the order of their begin."""
        return sorted(self._exporter.get_finished_spans(), key=lambda each: each.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of this name."""
        return [each for each in self.all if each.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The one of this name."""
        [span] = self.named(name)
        return span

    @property
    def produced(self) -> list[ReadableSpan]:
        """Those that stored messages or events."""
        return [each for each in self.all if each.kind is SpanKind.PRODUCER]

    @property
    def consumed(self) -> list[ReadableSpan]:
        """Those that processed them."""
        return [each for each in self.all if each.kind is SpanKind.CONSUMER]


class Metrics:
    """What the instruments tell now."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader

    def points(self, name: str) -> list[Any]:
        """Return the data points of one metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def values(self, name: str, *labels: str) -> Mapping[tuple[Any, ...], Any]:
        """Return the values of a counter or a gauge, by some of its attributes."""
        return {
            tuple(point.attributes.get(each) for each in labels): point.value
            for point in self.points(name)
        }


def context_of(span: ReadableSpan) -> SpanContext:
    """Return the context of a span."""
    context = span.get_span_context()
    assert context is not None
    return context


def trace_of(span: ReadableSpan) -> int:
    """Return the trace of a span."""
    return context_of(span).trace_id


def continues(span: ReadableSpan, cause: ReadableSpan) -> bool:
    """Say whether a span is a child of another, and linked to it."""
    own = context_of(cause)
    is_child = span.parent is not None and span.parent.span_id == own.span_id
    return is_child and trace_of(span) == own.trace_id and linked(span) == [own.span_id]


def linked(span: ReadableSpan) -> list[int]:
    """Return the ids of the spans that a span is linked to."""
    return [each.context.span_id for each in span.links]


def traceparent_of(span: ReadableSpan) -> str:
    """Return the header that names a span."""
    context = context_of(span)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
