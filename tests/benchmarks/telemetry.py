"""What traces and metrics cost a process: processor time, with OpenTelemetry's SDK or without.

enqueue_us           `nothing.enqueue()` in a transaction: the time of the thread that calls it
run_us               one of `nothing`, by a worker with one thread: the time of its process
bulk_us              each of `nothing.enqueue_many()`
unprovided_…         after `instrument()`, where no provider is configured
traced_…             after `instrument()`, every span sampled and handed to a batch processor whose
                     exporter drops them, and every instrument read
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command
from django.db import transaction
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from pgqueue import telemetry
from pgqueue.threads.listener import Listener
from testproject.shop.tasks import nothing
from tests.benchmarks.harness import messages
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (20_000,)
MICROSECONDS = 1e6
PATIENCE = 10.0
"""Seconds."""


class Dropping(SpanExporter):
    """Exports to nowhere."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS


def measure(*, messages: int, rounds: int) -> Report:
    """Compare processes that are traced with such as are not."""
    return repeat("telemetry", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    figures = _measured("", count)
    with _instrumented():
        figures |= _measured("unprovided_", count)
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(BatchSpanProcessor(Dropping()))
    meter_provider = MeterProvider([InMemoryMetricReader()])
    with _instrumented(tracer_provider=tracer_provider, meter_provider=meter_provider):
        figures |= _measured("traced_", count)
    tracer_provider.shutdown()
    meter_provider.shutdown()
    _wait_for_listeners()
    return Round(figures=figures, ratios={})


@contextmanager
def _instrumented(**providers: Any) -> Iterator[None]:
    telemetry.instrument(**providers)
    try:
        yield
    finally:
        telemetry.uninstrument()


def _measured(prefix: str, count: int) -> dict[str, float]:
    few = max(1, count // 10)
    messages.empty()
    enqueue = _cost(time.thread_time, _one_by_one, few)
    bulk = _cost(time.thread_time, _bulk, count - few)
    run = _cost(time.process_time, _drain, count)
    return {f"{prefix}enqueue_us": enqueue, f"{prefix}bulk_us": bulk, f"{prefix}run_us": run}


def _cost(clock: Callable[[], float], do: Callable[[int], None], count: int) -> float:
    """Return the microseconds of each of `count`."""
    began = clock()
    do(count)
    return (clock() - began) / count * MICROSECONDS


def _one_by_one(count: int) -> None:
    with transaction.atomic():
        for _ in range(count):
            nothing.enqueue()


def _bulk(count: int) -> None:
    nothing.enqueue_many([()] * count)


def _wait_for_listeners() -> None:
    """Wait until nothing here listens any more: the server may end next."""
    for thread in threading.enumerate():
        if isinstance(thread, Listener):
            thread.join(PATIENCE)


def _drain(count: int) -> None:
    call_command("runworker", "--drain", "--threads", "1", verbosity=0)
