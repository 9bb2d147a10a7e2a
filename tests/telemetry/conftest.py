"""What is traced and measured, by OpenTelemetry's own SDK, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pgqueue import telemetry
from pgqueue.database.connections import connect
from pgqueue.events import consumers
from tests.telemetry.reading import Metrics, Traces


@pytest.fixture
def reader() -> InMemoryMetricReader:
    """What collects when it is asked."""
    return InMemoryMetricReader()


@pytest.fixture
def providers(reader: InMemoryMetricReader) -> Iterator[dict[str, Any]]:
    """Providers of the SDK that keep everything in memory."""
    tracer_provider, meter_provider = TracerProvider(), MeterProvider([reader])
    yield {"tracer_provider": tracer_provider, "meter_provider": meter_provider}
    tracer_provider.shutdown()
    meter_provider.shutdown()


@pytest.fixture
def traces(providers: dict[str, Any]) -> Iterator[Traces]:
    """Have this process traced, and return what is."""
    exporter = InMemorySpanExporter()
    providers["tracer_provider"].add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.instrument(**providers)
    yield Traces(exporter, providers["tracer_provider"].get_tracer("test"))
    telemetry.uninstrument()


@pytest.fixture
def measured(providers: dict[str, Any], reader: InMemoryMetricReader) -> Iterator[Metrics]:
    """Have this process measured, and return what is."""
    telemetry.instrument(**providers)
    yield Metrics(reader)
    telemetry.uninstrument()


@pytest.fixture
def connection(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    """A connection as a worker has."""
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture(autouse=True)
def _no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})
