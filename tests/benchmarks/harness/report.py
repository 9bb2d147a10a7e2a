"""What a benchmark found: the medians of its rounds, and how far they lie apart."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from tests.benchmarks.harness.machine import Machine, machine


@dataclass(frozen=True)
class Round:
    """One round's figures, each with its unit at the end of its name, and ratios."""

    figures: Mapping[str, float]
    ratios: Mapping[str, float]
    remarks: Mapping[str, str] = field(default_factory=dict)
    """What could not be measured, and why."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A benchmark's medians; `spread` has the least and the most of each.

    A ratio is the median of the rounds' own ratios, since what it compares ran side by side.
    """

    benchmark: str
    messages: int
    rounds: int
    figures: Mapping[str, float]
    ratios: Mapping[str, float]
    spread: Mapping[str, Sequence[float]]
    machine: Mapping[str, Any]
    measured_at: str
    minutes: float = 0
    """How long it was measured, where that is what was asked for, not `messages`."""
    feed: str = "poll"
    """Who notified those who wait for events."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """What else is to be known: of what was measured, and of what could not be."""
    each: Sequence[Mapping[str, Mapping[str, float]]] = ()
    """The rounds: the `figures` and `ratios` of each."""

    @property
    def metrics(self) -> dict[str, float]:
        """Figures and ratios by their full names, as `spread` has them."""
        return {
            **{f"figures.{name}": value for name, value in self.figures.items()},
            **{f"ratios.{name}": value for name, value in self.ratios.items()},
        }

    def as_json(self) -> str:
        """Return one JSON object, on one line."""
        return json.dumps(asdict(self))


def repeat(
    benchmark: str,
    measure: Callable[[int], Round],
    *,
    messages: int,
    rounds: int,
    minutes: float = 0,
    feed: str = "poll",
    remarks: Mapping[str, str] | None = None,
) -> Report:
    """Measure several times and report the medians; say on stderr how far it is.

    What could not be measured in each round is the median of those where it could.
    """
    on = machine()
    done = []
    for number in range(1, rounds + 1):
        size = f"{minutes:g} minutes" if minutes else f"{messages} messages"
        print(f"{benchmark} ({size}): round {number} of {rounds}", file=sys.stderr)
        done.append(measure(messages))
    return report_of(
        benchmark, done, on=on, messages=messages, minutes=minutes, feed=feed, remarks=remarks
    )


def report_of(
    benchmark: str,
    done: Sequence[Round],
    *,
    on: Machine,
    messages: int = 0,
    minutes: float = 0,
    feed: str = "poll",
    remarks: Mapping[str, str] | None = None,
) -> Report:
    """Return the medians of rounds that were measured.

    Args:
        on: the machine and the server, as `machine.described` returns them.
    """
    figures = _collected([each.figures for each in done])
    ratios = _collected([each.ratios for each in done])
    return Report(
        benchmark=benchmark,
        messages=messages,
        rounds=len(done),
        minutes=minutes,
        feed=feed,
        figures=_rounded({name: median(values) for name, values in figures.items()}),
        ratios=_rounded({name: median(values) for name, values in ratios.items()}),
        spread={
            **{f"figures.{name}": _spread(values) for name, values in figures.items()},
            **{f"ratios.{name}": _spread(values) for name, values in ratios.items()},
        },
        machine=on,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        remarks={**(remarks or {}), **_failures([each.remarks for each in done])},
        each=[
            {"figures": _rounded(each.figures), "ratios": _rounded(each.ratios)} for each in done
        ],
    )


def _collected(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for each in rounds for name in each)
    return {name: [each[name] for each in rounds if name in each] for name in names}


def _failures(rounds: Sequence[Mapping[str, str]]) -> dict[str, str]:
    times = Counter(name for each in rounds for name in each)
    causes = {name: cause for each in rounds for name, cause in each.items()}
    return {
        name: f"{cause} (in {times[name]} of {len(rounds)} rounds)"
        for name, cause in causes.items()
    }


def _spread(values: Sequence[float]) -> list[float]:
    return [rounded(min(values)), rounded(max(values))]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded(value) for name, value in values.items()}


def rounded(value: float) -> float:
    """Return four digits of a figure: more would be noise."""
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() else short
