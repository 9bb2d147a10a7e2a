"""The list of metrics: each with its name, its meaning and its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgqueue.spark.pipeline import (
    changes,
    errors,
    flows,
    forecast,
    keys,
    objectives,
    over_time,
    rates,
    simulation,
    storms,
    waits,
)
from pgqueue.spark.pipeline.material import Made, Material


@dataclass(frozen=True)
class Metric:
    """One or more tables that are made together.

    Attributes:
        title: a title of a few words.
        says: its meaning in one sentence.
        tables: the names of its tables.
    """

    title: str
    says: str
    tables: tuple[str, ...]
    make: Callable[[Material], Made] = field(repr=False)


METRICS: Mapping[str, Metric] = {
    "rates": Metric(
        "Rates and percentiles",
        "How messages ended, how long they waited and ran: all, by channel, task, hour and key.",
        ("summary", "by_channel", "by_task", "by_hour", "by_key", "slowest_tasks"),
        rates.make_rates,
    ),
    "over_time": Metric(
        "Over time",
        "Arrivals, ends, failed attempts, backlog, concurrency and waits over time.",
        ("over_time",),
        over_time.make_over_time,
    ),
    "objectives": Metric(
        "Objectives",
        "Which share of messages succeeded in time, and how fast error budgets burned.",
        ("slo", "slo_burn"),
        objectives.make_objectives,
    ),
    "keys": Metric(
        "Noisy keys",
        "The keys that took most of the run time, and how long the others waited.",
        ("noisiest_keys",),
        keys.make_keys,
    ),
    "flows": Metric(
        "Flows",
        "How long flows took, and where the messages on their critical paths waited.",
        ("flows", "flow_tasks", "flow_paths"),
        flows.make_flows,
    ),
    "waits": Metric(
        "Waits of durable tasks",
        "What runs of durable tasks waited for, and for how long.",
        ("waits",),
        waits.make_waits,
    ),
    "errors": Metric(
        "Errors",
        "Attempts that failed, by class, place and message without its values.",
        ("errors",),
        errors.make_errors,
    ),
    "storms": Metric(
        "Retry storms",
        "When a task was retried far more often than usual.",
        ("retry_storms",),
        storms.make_storms,
    ),
    "simulation": Metric(
        "Simulation",
        "What more workers, a limit or another backoff would have done, by a replay of the past.",
        ("what_if",),
        simulation.make_simulation,
    ),
    "changes": Metric(
        "Changes",
        "When a task began to run longer or shorter.",
        ("change_points", "task_durations"),
        changes.make_changes,
    ),
    "forecast": Metric(
        "Forecast",
        "The backlog to expect on the day after.",
        ("forecast",),
        forecast.make_forecast,
    ),
}
"""The metrics by name, in the order in which they are made."""
