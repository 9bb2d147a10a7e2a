"""The metrics of each process: counts of messages, and the durations of their processing."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.metrics import Meter

from pgqueue.calls.outcomes import Died, Ending
from pgqueue.codec.forms import full_name

SYSTEM = "pgqueue"
TASK = "messaging.pgqueue.task"
OUTCOME = "messaging.pgqueue.outcome"
BOUNDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    *(30, 60, 300, 1800, 3600),
)
"""In seconds: the bounds of the semantic conventions, and longer ones for tasks of minutes."""
NOT_COUNTED = {"handed back", "closed"}


class Instruments:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Messages and events that a producer tried to store.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Runs of messages, by their outcomes.",
        )
        self._durations = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Durations of runs, and of handlers of events.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )

    def sent(
        self, operation: str, channel: str | None, task: str | None, count: int, error: str | None
    ) -> None:
        """Count messages that were stored, or that failed to be."""
        self._sent.add(count, _labels(operation, channel, task, error))

    def processed(
        self, channel: str | None, task: str | None, seconds: float, error: str | None
    ) -> None:
        """Record the duration of one run."""
        self._durations.record(seconds, _labels("process", channel, task, error))

    def ended(self, channel: str, task: str, ending: Ending) -> None:
        """Count a run by its outcome, in the words of the Prometheus figures."""
        if ending.word in NOT_COUNTED:
            return
        outcome = "dead" if isinstance(ending, Died) else ending.word
        labels = _labels(
            "process", channel, task, None if ending.error is None else name_of(ending.error)
        )
        self._consumed.add(1, {**labels, OUTCOME: outcome})


def name_of(error: BaseException) -> str:
    """Return the name of an error's class for the attribute `error.type`."""
    return full_name(type(error))


def _labels(
    operation: str, channel: str | None, task: str | None, error: str | None
) -> Mapping[str, str]:
    labels = {"messaging.system": SYSTEM, "messaging.operation.name": operation}
    if channel is not None:
        labels["messaging.destination.name"] = channel
    if task:
        labels[TASK] = task
    if error is not None:
        labels["error.type"] = error
    return labels
