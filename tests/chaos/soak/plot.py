"""One picture of a run. `python -m tests.chaos.soak.plot soak.jsonl soak.png` draws it again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from tests.chaos.soak.record import read
from tests.chaos.soak.verdict import growth

Lines = Sequence[Mapping[str, Any]]
MB = 1 << 20
PINNED = "#f3ead2"
FAULTS = {
    **dict.fromkeys(["restart", "terminate"], "server"),
    **dict.fromkeys(["reset", "cut", "silence"], "network"),
    **dict.fromkeys(["kill", "stop", "deploy"], "workers"),
}
COLORS = {"server": "red", "network": "blue", "workers": "gray"}
STATES = ("ready", "running", "scheduled", "held", "dead")


def plot(raw: Path, picture: Path) -> None:
    """Draw all there is in the raw data, be it a run that was cut short."""
    lines = read(raw)
    samples, probes = lines.get("sample", []), lines.get("probe", [])
    panels: list[Callable[[Axes], None]] = [
        lambda axes: _throughput(axes, samples, probes),
        lambda axes: _latency(axes, samples),
        lambda axes: _backlog(axes, samples),
        lambda axes: _table(axes, samples),
        lambda axes: _indexes(axes, samples),
        lambda axes: _dead(axes, samples),
        lambda axes: _memory(axes, samples),
    ]
    figure, column = plt.subplots(
        len(panels), sharex=True, figsize=(14, 2.5 * len(panels)), layout="constrained"
    )
    for draw, axes in zip(panels, column, strict=True):
        draw(axes)
        _mark(axes, lines)
        axes.set_ylim(bottom=0 if axes.get_yscale() == "linear" else None)
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    column[-1].set_xlabel("minutes")
    column[0].set_title(_title(lines), loc="left")
    figure.savefig(picture, dpi=110, facecolor="white")
    plt.close(figure)


def _throughput(axes: Axes, samples: Lines, probes: Lines) -> None:
    rates = [each["count"] / each["seconds"] for each in probes]
    axes.plot(_minutes(probes), rates, "o-", ms=3, lw=0.8, color="#1e8449", label="bursts")
    axes.plot(_minutes(samples), [each["per_s"] for each in samples], lw=0.8, label="steady load")
    axes.set_ylabel("messages/s")


def _latency(axes: Axes, samples: Lines) -> None:
    known = [each for each in samples if len(each["wait_ms"]) == 2]
    for index, name in enumerate(["p50", "p95"]):
        waits = [max(each["wait_ms"][index], 0.1) for each in known]
        axes.plot(_minutes(known), waits, lw=0.8, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("start − ready, ms")


def _backlog(axes: Axes, samples: Lines) -> None:
    for state in STATES:
        counts = [each["backlog"].get(state, 0) for each in samples]
        axes.plot(_minutes(samples), counts, lw=0.8, label=state)
    axes.set_yscale("symlog", linthresh=10)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.set_ylabel("backlog")


def _table(axes: Axes, samples: Lines) -> None:
    for name, label in {
        "pgqueue_message": "message",
        "pgqueue_history": "history, with indexes",
        "toast": "message's long values",
    }.items():
        sizes = [each["bytes"].get(name, 0) / MB for each in samples]
        axes.plot(_minutes(samples), sizes, lw=0.8, label=label)
    axes.set_ylabel("tables, MB")


def _indexes(axes: Axes, samples: Lines) -> None:
    """Draw the hot table's, the largest first."""
    last = samples[-1]["bytes"] if samples else {}
    names = sorted((name for name in last if name.startswith("pgqueue_message_")), key=last.get)
    axes.set_prop_cycle(color=mpl.colormaps["tab20"].colors)
    for name in reversed(names):
        sizes = [each["bytes"].get(name, 0) / MB for each in samples]
        label = f"{name.removeprefix('pgqueue_message_')}: {sizes[-1]:.1f}"
        axes.plot(_minutes(samples), sizes, lw=0.8, label=label)
    axes.set_ylabel("indexes of message, MB")


def _dead(axes: Axes, samples: Lines) -> None:
    for table in ("pgqueue_message", "pgqueue_history"):
        vacuums = list(growth(each["vacuums"].get(table, 0) for each in samples))
        dead = [each["dead"].get(table, 0) for each in samples]
        done = vacuums[-1] if vacuums else 0
        name = f"{table.removeprefix('pgqueue_')}, vacuumed {done} times"
        axes.plot(_minutes(samples), dead, lw=0.8, label=name)
    axes.set_ylabel("dead rows")


def _memory(axes: Axes, samples: Lines) -> None:
    for name, label in {
        "sum": "workers, all",
        "max": "the largest process",
        "veteran": "the one never killed",
    }.items():
        sizes = [each["worker_mb"][name] for each in samples]
        axes.plot(_minutes(samples), sizes, lw=0.8, label=label)
    axes.plot(_minutes(samples), [each["server_mb"] for each in samples], lw=0.8, label="server")
    axes.set_ylabel("memory, MB")


def _mark(axes: Axes, lines: Mapping[str, Lines]) -> None:
    """Mark when snapshots were held, and each fault by a thin line."""
    for pin in lines.get("pin", []):
        axes.axvspan(pin["at"] / 60, (pin["at"] + pin["lasted"]) / 60, color=PINNED, lw=0, zorder=0)
    for fault in lines.get("fault", []):
        color = COLORS[_whose(fault)]
        axes.axvline(fault["at"] / 60, color=color, lw=0.4, alpha=0.4, zorder=1)


def _whose(fault: Mapping[str, Any]) -> str:
    return FAULTS[fault["name"].partition("_")[0]]


def _title(lines: Mapping[str, Lines]) -> str:
    [run] = lines["run"]
    count = Counter(map(_whose, lines.get("fault", [])))
    named = ", ".join(f"{count[whose]} {color}: {whose}" for whose, color in COLORS.items())
    return (
        f"{run['minutes']:g} minutes of mixed load; {count.total()} faults as thin lines "
        f"({named}); shaded: a snapshot is held"
    )


def _minutes(lines: Lines) -> list[float]:
    return [each["at"] / 60 for each in lines]


if __name__ == "__main__":
    plot(Path(sys.argv[1]), Path(sys.argv[2]))
