"""Rules of the event log: its events, its readers, and the conditions of appends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.proof.checker.account import Account, Operation, Row
from tests.proof.checker.anomaly import Anomaly

SEEN = 20.0
"""Seconds without a fault after which each reader sees a committed event."""


def the_log_has_what_was_committed(account: Account) -> Iterator[Anomaly]:
    """The log has each committed event once, no other one, and whole transactions."""
    times = Counter(row["number"] for row in account.events)
    of_number = {row["number"]: row for row in account.events}
    published: set[int] = set()
    for publish in account.doing("publish"):
        numbers = [event["number"] for event in publish["events"]]
        published.update(numbers)
        there = [number for number in numbers if times[number]]
        missing = [number for number in numbers if not times[number]]
        if publish.end == "ok" and missing:
            yield Anomaly("event", f"event {missing[0]} was committed, and is gone", [publish])
        elif publish.end == "fail" and there:
            words = f"event {there[0]} was not committed, and is in the log"
            yield Anomaly("event", words, [publish], [of_number[there[0]]])
        elif there and missing:
            words = f"event {there[0]} is in the log, and {missing[0]} of its transaction is not"
            yield Anomaly("event", words, [publish], [of_number[there[0]]])
    for number, count in times.items():
        rows = [row for row in account.events if row["number"] == number] if count > 1 else []
        if rows:
            yield Anomaly("event", f"event {number} is in the log {count} times", [], rows)
        elif number not in published:
            yield Anomaly("event", f"nobody published event {number}", [], [of_number[number]])


def every_reader_reads_the_same(account: Account) -> Iterator[Anomaly]:
    """Each read returns the events after a position, without a gap, as the log has them.

    A read that an old primary answered may have seen an event that its promotion lost.
    """
    of_position = {row["position"]: row for row in account.events}
    for read in account.doing("read"):
        if read.end != "ok":
            continue
        for expected, (position, number) in enumerate(read["found"], start=read["after"] + 1):
            row = of_position.get(position)
            if position != expected:
                words = f"a read after {read['after']} skipped position {expected}"
                yield Anomaly("reader", words, [read])
                break
            is_other = row is None or row["number"] != number
            if is_other and not account.may_be_forgotten(read):
                words = f"a read found event {number} at position {position}, and the log does not"
                yield Anomaly("reader", words, [read], [row] if row else [])
                break


def every_reader_sees_the_log(account: Account) -> Iterator[Anomaly]:
    """A read goes to the end of the log, and each observer reads.

    A read ends where the next event has no position yet. So it is compared with that event alone.
    """
    published = {
        event["number"]: each
        for each in account.doing("publish")
        if each.end == "ok"
        for event in each["events"]
    }
    of_position = {row["position"]: row for row in account.events}
    reads = [each for each in account.doing("read") if each.end == "ok"]
    for read in reads:
        if read["limit"] is None or len(read["found"]) >= read["limit"]:
            continue
        last = read["found"][-1][0] if read["found"] else read["after"]
        row = of_position.get(last + 1)
        publish = row and published.get(row["number"])
        if row and publish and account.calm(publish.ended, read.began) > SEEN:
            words = f"a read saw nothing after {last}, long after the next event was committed"
            yield Anomaly("blind", words, [publish, read], [row])
    for name, since in account.participants("observers").items():
        for stop in account.doing("stop"):
            if account.events and not reads and account.calm(since.began, stop.began) > SEEN:
                yield Anomaly("blind", f"no read of the {name} succeeded", [since, stop])


def groups_handle_each_event(account: Account) -> Iterator[Anomaly]:
    """A group handles each event, in the order of its key; an atomic group handles it once."""
    groups = {f"group {name}": account.effects[f"group {name}"] for name in _groups(account)}
    for name, rows in groups.items():
        handled: dict[int, Row] = {}
        last: dict[str, Row] = {}
        for row in rows:
            position, before = row["position"], last.get(row["key"])
            if position in handled:
                if row["once"]:
                    words = f"{name} handled position {position} twice"
                    yield Anomaly("group", words, [], [handled[position], row])
                continue
            if before is not None and before["position"] > position:
                words = f"{name} handled {position} after {before['position']} of the same key"
                yield Anomaly("group", words, [], [before, row])
            handled[position] = last[row["key"]] = row
        for event in account.events:
            if event["position"] not in handled:
                words = f"{name} never handled position {event['position']}"
                yield Anomaly("group", words, [], [event])


def _groups(account: Account) -> set[str]:
    """Return the groups that read, or that should."""
    have_read = {name for name in account.effects if name.startswith("group ")}
    return {name.removeprefix("group ") for name in have_read} | account.participants(
        "groups"
    ).keys()


def conditions_hold(account: Account) -> Iterator[Anomaly]:
    """An append with a condition follows the event that it expects, with nothing in between.

    A refused append met another event of its topic and key after the expected position. A promotion
    may have lost that event, or the event that the append expects.
    """
    position_of = {row["number"]: row["position"] for row in account.events}
    of_key: dict[tuple[str, str], list[Row]] = {}
    for row in account.events:
        of_key.setdefault((row["topic"], row["key"]), []).append(row)
    publishes = list(account.doing("publish"))
    begins = {event["number"]: each.began for each in publishes for event in each["events"]}
    for publish in publishes:
        if publish["expect"] is None:
            continue
        expected, [event] = publish["expect"], publish["events"]
        others = of_key.get((event["topic"], event["key"]), [])
        own = position_of.get(event["number"])
        if own is not None:
            between = [row for row in others if expected < row["position"] < own]
            if between:
                words = f"event {event['number']} expected {expected}, and another one came before"
                yield Anomaly("condition", words, [publish], [between[0]])
        elif publish["why"] == "conflict" and not (
            account.may_be_forgotten(publish)
            or _expects_a_lost_event(publish, others, account)
            or _met_another(publish, expected, others, begins)
        ):
            words = f"event {event['number']} was refused, and nothing came after {expected}"
            yield Anomaly("condition", words, [publish], others[-1:])


def _expects_a_lost_event(publish: Operation, others: list[Row], account: Account) -> bool:
    """Return whether a promotion may have lost the event that an append expects."""
    is_there = any(row["position"] == publish["expect"] for row in others)
    follows = any(each.began < publish.ended for each in account.promotions)
    return publish["expect"] > 0 and not is_there and follows


def _met_another(
    publish: Operation, expected: int, others: list[Row], begins: Mapping[int, float]
) -> bool:
    """Return whether another event came after the expected one.

    Args:
        begins: the times at which the publishes of events began, by the events' numbers.
    """
    return any(
        row["position"] > expected and begins.get(row["number"], 0) < publish.ended
        for row in others
    )
