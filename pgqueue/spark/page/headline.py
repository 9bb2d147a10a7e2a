"""The first lines: the state of the queue, in words and in the most important numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pgqueue.spark.page import units
from pgqueue.spark.page.objectives import missed
from pgqueue.spark.page.rows import Data
from pgqueue.spark.page.sections import counted, listed, shortened


class Card(NamedTuple):
    """An important number."""

    label: str
    value: str
    note: str
    is_bad: bool = False


class Headline(NamedTuple):
    """The texts and numbers at the top of the page."""

    title: str
    period: str
    source: str
    sentences: list[str]
    cards: list[Card]


def headline(data: Data) -> Headline:
    """Return the texts and numbers at the top of the page."""
    facts = data.facts
    title = str(facts.get("title") or "How the queue does")
    cards = _cards(data) if data.summary["messages"] else []
    return Headline(title, _period(data), _source(data), _sentences(data), cards)


def _sentences(data: Data) -> list[str]:
    summary = data.summary
    if not summary["messages"]:
        return ["No message ended in this period, so there is nothing to report."]
    said = [
        f"{units.share(summary['success_rate'])} of {counted(summary['messages'], 'message')} "
        "succeeded."
    ]
    if summary["wait_p50_s"] is not None:
        said.append(
            f"Half began within {units.seconds(summary['wait_p50_s'])}, "
            f"99 % within {units.seconds(summary['wait_p99_s'])}."
        )
    if summary["dead"]:
        said.append(f"{counted(summary['dead'], 'message')} became dead letters.")
    late = [shortened(each, 30) for each in missed(data)]
    if late:
        one = len(late) == 1
        said.append(
            f"{'Channel' if one else 'Channels'} {listed(late)} missed "
            f"{'its objective' if one else 'their objectives'}."
        )
    elif data.rows("slo"):
        said.append("Every objective was met.")
    return said


def _cards(data: Data) -> list[Card]:
    now = data.summary
    return [
        Card("Messages", units.number(now["messages"]), f"{units.number(now['per_s'])} a second"),
        Card(
            "Succeeded",
            units.share(now["success_rate"]),
            f"{units.share(now['retry_rate'])} were retried",
        ),
        Card(
            "Wait",
            units.seconds(now["wait_p50_s"]),
            f"99 % within {units.seconds(now['wait_p99_s'])}",
        ),
        Card(
            "Run", units.seconds(now["run_p50_s"]), f"99 % within {units.seconds(now['run_p99_s'])}"
        ),
        Card(
            "Dead letters",
            units.number(now["dead"]),
            f"{units.share(now['death_rate'])} of all",
            bool(now["dead"]),
        ),
        Card("Lost", units.share(now["loss_rate"]), "lost a worker"),
    ]


def _period(data: Data) -> str:
    since, until = data.facts.get("since"), data.facts.get("until")
    if since is None or until is None:
        return "All that is known"
    return f"{_dated(since)} to {_dated(until)}, UTC"


def _dated(value: datetime) -> str:
    value = value.astimezone(UTC)
    return f"{units.day(value)} {value:%Y %H:%M}"


def _source(data: Data) -> str:
    facts = data.facts
    source = facts.get("source")
    from_where = "the live database" if source == "live" else f"the export {source}"
    made = f"made {units.when(facts.get('made_at'))}" if facts.get("made_at") else "made"
    return f"{made} from {from_where}; percentiles are {facts.get('percentiles') or 'exact'}"
