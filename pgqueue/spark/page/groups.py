"""The sections about channels, tasks and keys."""

from __future__ import annotations

from collections.abc import Sequence

from pgqueue.spark.page import axes, units
from pgqueue.spark.page.axes import Axis
from pgqueue.spark.page.plots import Mark, Row, Rows, Series, box, span
from pgqueue.spark.page.rows import Data, highest, total
from pgqueue.spark.page.rows import Row as Values
from pgqueue.spark.page.sections import NO_NAME, Section, empty, shortened
from pgqueue.spark.page.tables import table
from pgqueue.spark.pipeline.rates import KEYS

DETAILS = ("succeeded", "wait_p95_s", "run_p95_s")
"""Columns of groups that only the files have: a row must fit the page."""
ROWS = 12
"""The most names in one plot."""
LOOKS = ("c1", "c4", "c2")


def channels(data: Data) -> Section:
    """Return the section about channels."""
    rows = data.rows("by_channel")
    if not rows:
        return empty("channels", "Channels", "No channel was used", "No message ended.")
    slowest = highest(rows, "wait_p99_s")
    title = "Nothing is known of how long channels waited"
    if slowest:
        title = (
            f"{shortened(slowest['channel'])} waited longest: 1 % of its messages for "
            f"{units.seconds(slowest['wait_p99_s'])} or more"
        )
        if len(rows) == 1:
            title = (
                f"Its one channel, {shortened(slowest['channel'])}, began 99 % of its messages "
                f"within {units.seconds(slowest['wait_p99_s'])}"
            )
    return Section(
        "channels",
        "Channels",
        title,
        "The dots show the times within which half, 95 % and 99 % of a channel's messages began. "
        "The scale is logarithmic.",
        [percentiles("Wait by channel", rows, "channel", "wait")],
        [table("By channel", rows, without=DETAILS)],
    )


def tasks(data: Data) -> Section:
    """Return the section about tasks."""
    rows, slowest = data.rows("by_task"), data.rows("slowest_tasks")
    if not rows and not slowest:
        return empty("tasks", "Tasks", "No task ran", "No task ended in this period.")
    title = "No task took any time"
    figures = []
    if shares := slowest or _shares_of(rows):
        first = shares[0]
        title = f"{shortened(first['task'])} used {units.share(first['share'])} of all run time"
        figures.append(_shares(shares, len(rows)))
    if rows:
        figures.append(percentiles("Run time by task", rows, "task", "run"))
    tables = [("By task", rows), ("Tasks that used most run time", slowest)]
    return Section(
        "tasks",
        "Tasks",
        title,
        "A bar is a task's share of the total run time. The dots show the times within which half, "
        "95 % and 99 % of its runs ended.",
        figures,
        [table(caption, found, without=DETAILS) for caption, found in tables if found],
    )


def _shares_of(rows: Sequence[Values]) -> Sequence[Values]:
    """Return tasks with their share of the run time, the highest first."""
    every = total(rows, "run_total_s")
    taken = sorted(rows, key=lambda row: -(row["run_total_s"] or 0))
    return [{**row, "share": (row["run_total_s"] or 0) / every} for row in taken if every]


def keys(data: Data) -> Section:
    """Return the section about keys, such as tenants or users."""
    noisiest, rows = data.rows("noisiest_keys"), data.rows("by_key")
    if not noisiest and not rows:
        return empty(
            "keys", "Keys", "No message had a key", "Keys are given when messages are enqueued."
        )
    figures = []
    if rows:
        first = rows[0]
        title = f"{shortened(first['key'])} had most messages: {units.number(first['messages'])}"
    if noisiest:
        first = noisiest[0]
        title = (
            f"{shortened(first['key'])} used {units.share(first['run_share'])} of the run time of "
            f"{shortened(first['channel'], 30)}, with {units.share(first['share'])} of its messages"
        )
        figures = [_noise(noisiest)]
    some = f" (the {KEYS} with most messages)" if len(rows) >= KEYS else ""
    tables = [("Noisiest keys", noisiest, 15), (f"By key{some}", rows, 0 if noisiest else 15)]
    return Section(
        "keys",
        "Keys",
        title,
        "Two bars for each key: its part of its channel's messages, and of the channel's run time. "
        "Where the second is much longer, its messages are few but long."
        if noisiest
        else "",
        figures,
        [
            table(caption, found, shown=shown, without=DETAILS)
            for caption, found, shown in tables
            if found
        ],
    )


def percentiles(title: str, rows: Sequence[Values], name: str, of: str) -> Rows:
    """Return a plot of the 50th, 95th and 99th percentile of each row.

    Args:
        name: the column that names the row.
        of: "wait" or "run".
    """
    columns = [f"{of}_p50_s", f"{of}_p95_s", f"{of}_p99_s"]
    drawn = rows[:ROWS]
    axis = axes.of_durations(row[column] for row in drawn for column in columns)
    return Rows(
        f"{title}{of_all(rows)}",
        axis,
        [_percentiles(row, axis, name, columns) for row in drawn],
        [Series(label, look) for label, look in zip(("half", "95 %", "99 %"), LOOKS, strict=True)],
    )


def of_all(
    rows: Sequence[object], *, known: int = 0, most: int = 0, drawn: int = ROWS, word: str = "first"
) -> str:
    """Return the part of a title that names the drawn rows, if not every row is drawn.

    Args:
        known: the number of all rows, if the table has only some of them.
        most: the most rows of the table; if it is reached, more may exist.
    """
    number = max(known, len(rows))
    more = " or more" if 0 < most <= number else ""
    return f" (the {word} {drawn} of {number}{more})" if number > drawn else ""


def _percentiles(row: Values, axis: Axis, name: str, columns: Sequence[str]) -> Row:
    values = [row[column] for column in columns]
    said = f"{units.seconds(values[0])} … {units.seconds(values[-1])}"
    return Row(row[name] or NO_NAME, said, span(axis, values, LOOKS))


def _shares(rows: Sequence[Values], number: int) -> Rows:
    """Return the bars of the tasks with the longest run time, out of `number` tasks."""
    drawn = rows[:ROWS]
    axis = axes.from_zero([row["share"] for row in drawn], units.share)
    return Rows(
        f"Share of all run time{of_all(rows, known=number)}",
        axis,
        [
            Row(
                row["task"] or NO_NAME,
                f"{units.share(row['share'])} · {units.seconds(row['run_total_s'])}",
                [Mark(box(0, 0.25, axis.place(row["share"] or 0), 0.75), "bar c1")],
            )
            for row in drawn
        ],
    )


def _noise(rows: Sequence[Values]) -> Rows:
    drawn = rows[:ROWS]
    axis = axes.from_zero(
        [row[column] for row in drawn for column in ("share", "run_share")], units.share
    )
    return Rows(
        f"Share of the channel's messages and run time{of_all(rows)}",
        axis,
        [
            Row(
                row["key"] or NO_NAME,
                f"{units.share(row['share'])} · {units.share(row['run_share'])}",
                [
                    Mark(box(0, 0.1, axis.place(row["share"] or 0), 0.45), "bar c1"),
                    Mark(box(0, 0.55, axis.place(row["run_share"] or 0), 0.9), "bar c2"),
                ],
                note=row["channel"] or "",
            )
            for row in drawn
        ],
        [Series("messages", "c1"), Series("run time", "c2")],
    )
