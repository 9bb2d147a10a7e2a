"""The report as one picture: a panel for each figure, a bar for each peer."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.benchmarks.harness.report import Report
from tests.benchmarks.peers.peer import ADAPTERS
from tests.benchmarks.peers.rounds import OURS
from tests.benchmarks.peers.table import LABELS

PANELS = (
    "drain_per_s",
    "full_drain_per_s",
    "nap_drain_per_s",
    "query_drain_per_s",
    "enqueue_per_s",
    "bulk_per_s",
    "clients_per_s",
    "pickup_p50_ms",
)
# A sheet of its own colour is read on dark pages and on light ones.
SHEET, INK, OUR_COLOUR, THEIR_COLOUR = "#f6f8fa", "#1f2328", "#0969da", "#8c959f"


def draw(report: Report, file: Path) -> None:
    """Write it as SVG, the same for the same report."""
    with mpl.rc_context({"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 9}):
        sheet = Figure(figsize=(11, 13), facecolor=SHEET, layout="constrained")
        sheet.suptitle("pgqueue and its peers; medians, and the least and the most", color=INK)
        for axes, figure in zip(sheet.subplots(4, 2).flat, PANELS, strict=True):
            _panel(axes, report, figure)
        sheet.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def _panel(axes: Axes, report: Report, figure: str) -> None:
    names = [peer for peer in reversed(ADAPTERS) if f"{peer}_{figure}" in report.figures]
    medians = [report.figures[f"{peer}_{figure}"] for peer in names]
    axes.set_title(
        f"{LABELS[figure]} {'(less is better)' if figure.endswith('ms') else ''}", color=INK
    )
    axes.set_facecolor(SHEET)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(colors=INK, length=0)
    axes.set_xticks([])
    bars = axes.barh(
        names,
        medians,
        xerr=_whiskers(report, figure, names, medians),
        color=[OUR_COLOUR if peer == OURS else THEIR_COLOUR for peer in names],
        ecolor=INK,
    )
    axes.bar_label(bars, labels=[f"{median:,}" for median in medians], padding=6, color=INK)
    axes.margins(x=0.2)


def _whiskers(
    report: Report, figure: str, names: list[str], medians: list[float]
) -> tuple[list[float], list[float]]:
    """Return how far the least and the most are from the median."""
    spreads = [report.spread[f"figures.{peer}_{figure}"] for peer in names]
    return (
        [median - least for median, (least, _) in zip(medians, spreads, strict=True)],
        [most - median for median, (_, most) in zip(medians, spreads, strict=True)],
    )
