"""OpenTelemetry's traces and metrics of messages, from the enqueueing to each run."""

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise ImportError(
        "pgqueue.telemetry needs opentelemetry-api: pip install 'pgqueue[opentelemetry]'."
    ) from error

from pgqueue.telemetry.gauges import observe_queue
from pgqueue.telemetry.instrumenting import instrument, processing, uninstrument

__all__ = ["instrument", "observe_queue", "processing", "uninstrument"]
