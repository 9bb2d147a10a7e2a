"""The books: what producers know, against what the tables say when everything has ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.chaos.producer import NUMBERS_EACH
from tests.model.model import Policy, Starts

Connection = psycopg.Connection[Any]

# How messages of each kind end; each other one succeeds.
ENDS = {
    **dict.fromkeys(["hopeless", "poison", "unstorable", "unreadable"], "dead"),
    **dict.fromkeys(["never", "gives_up", "unknown", "cancelled_member"], "cancelled"),
}
LEAVE_ONE = (
    *("atomic", "in_order", "fails_once_atomic", "pulled", "raw"),
    *("member_atomic", "grows_atomically"),
)
LEAVE_SOME = (
    *("plain", "limited", "paced", "waiting", "fails_once", "in_parts", "once", "large"),
    *("member", "fails_until_replayed", "reports", "grows"),
)
LEAVE_NONE = ("never", "cancelled_member")
LIMITS = {"of the channel": ("channel", 5), "of each key": ("channel, key", 2)}
CROWDED = 300
"""Where so many limited messages ran undisturbed, some have met their limits: producers enqueue
crowds of them. In what takes seconds, and faults as often, none of the crowds may."""
PACE = Policy(rate=50, burst=5)


@dataclass
class Books:
    """What was enqueued, each message's kind by its number; `unsure`: whole transactions."""

    committed: dict[int, str] = field(default_factory=dict)
    undone: dict[int, str] = field(default_factory=dict)
    unsure: list[Mapping[int, str]] = field(default_factory=list)

    def read(self, lines: Iterable[str]) -> list[str]:
        """Enter what a producer said; return the errors among it."""
        errors: list[str] = []
        begun: dict[int, str] = {}
        for line in lines:
            said = json.loads(line)
            if "begun" in said:
                begun = {int(number): kind for number, kind in said["begun"].items()}
            elif came := said.get("came"):
                if came == "unsure":
                    self.unsure.append(begun)
                else:
                    getattr(self, came).update(begun)
                begun = {}
            else:
                errors.append(said["error"])
        if begun:
            # It was killed before it knew.
            self.unsure.append(begun)
        return errors


@dataclass(frozen=True)
class Found:
    """A message, by the number that it carries."""

    id: int
    number: int
    end: str
    attempt: int
    failures: int
    lost: int

    @property
    def succeeded(self) -> bool:
        """Whether one of its runs was charged with nothing."""
        return self.end == "succeeded"


def audit(connection: Connection, books: Books, *, fails: Sequence[str] = ()) -> str:
    """Compare the books with the tables, when nothing is left to run; return a summary.

    Args:
        fails: kinds of messages that the scenario may have made dead letters of.

    Raises:
        AssertionError: something is missing, doubled, out of order or left over.
    """
    found = list(_found(connection))
    expected = _resolve(books, {each.number for each in found})
    numbers = Counter(each.number for each in found)

    missing = expected.keys() - numbers
    assert not missing, f"lost: {_some(missing, expected)}"
    strangers = numbers.keys() - expected
    assert not strangers, f"not enqueued, or undone: {_some(strangers, books.undone)}"
    doubled = [number for number, times in numbers.items() if times > 1]
    assert not doubled, f"there more than once: {_some(doubled, expected)}"
    wrong = {
        each.number: (expected[each.number], each.end)
        for each in found
        if each.end != ENDS.get(expected[each.number], "succeeded")
        and not (expected[each.number] in fails and each.end == "dead")
    }
    assert not wrong, f"{len(wrong)} ended otherwise: {dict(list(wrong.items())[:5])}"
    ends = Counter(each.end for each in found)
    assert ends.total() == len(expected) == ends["succeeded"] + ends["dead"] + ends["cancelled"]

    charged = [each for each in found if each.failures + each.lost > each.attempt - each.succeeded]
    assert not charged, f"charged more often than they ran: {charged[:5]}"

    _check_effects(connection, expected, {each.number: each.end for each in found})
    _check_order(connection, unsure={number for each in books.unsure for number in each})
    crowd = sum(expected[each.number] == "limited" and each.attempt == 1 for each in found)
    most = _check_limits(connection, must_be_met=crowd >= CROWDED)
    _check_pace(connection)
    _check_flows(connection)
    assert not (left := leftovers(connection)), left
    assert not _count(connection, LANES), "lanes are left, and nothing is in them"
    known = len(books.committed)
    return (
        f"{known} committed, {len(books.unsure)} transactions unsure, {len(books.undone)} undone; "
        + ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        + f"; {sum(each.lost for each in found)} leases lost; at most {most} of {crowd} at once"
    )


def _found(connection: Connection) -> Iterator[Found]:
    # Those below 0 are an operator's, of whom no books are kept.
    rows = connection.execute(
        "WITH found AS ("
        "    SELECT id, task, payload, outcome AS word, attempt, failures, lost "
        "    FROM pgqueue_history "
        "    UNION ALL "
        "    SELECT id, task, payload, state, attempt, failures, lost FROM pgqueue_message) "
        "SELECT id, number, word, attempt, failures, lost "
        "FROM found, LATERAL (SELECT (payload -> 'args' ->> 0)::bigint AS number) n "
        "WHERE number >= 0 AND task NOT LIKE 'pgqueue.%'"
    )
    return (Found(*row) for row in rows)


def _resolve(books: Books, found: set[int]) -> dict[int, str]:
    """Return all that should be there: of a transaction in doubt everything, or nothing."""
    expected = dict(books.committed)
    for each in books.unsure:
        there = each.keys() & found
        assert there in (set(), set(each)), f"half of a transaction is there: {each}"
        expected.update({number: each[number] for number in there})
    return expected


def _check_effects(
    connection: Connection, expected: Mapping[int, str], ends: Mapping[int, str]
) -> None:
    rows = connection.execute(
        "SELECT number, count(*) FROM chaos_effect WHERE number >= 0 GROUP BY number"
    )
    effects: Counter[int] = Counter(dict(rows.fetchall()))
    unexpected = effects.keys() - expected
    assert not unexpected, f"effects of what was never enqueued: {list(unexpected)[:5]}"
    for number, kind in expected.items():
        times = effects[number]
        if kind in LEAVE_ONE:
            assert times == (ends[number] == "succeeded"), f"{kind} {number}: {times} effects"
        elif kind in LEAVE_SOME and ends[number] == "succeeded":
            assert times, f"{kind} {number} succeeded without its effect"
        elif kind in LEAVE_NONE:
            assert not times, f"{kind} {number} took effect"


def _check_order(connection: Connection, *, unsure: set[int]) -> None:
    """Check that what is ordered took effect in the order of its ids, key by key.

    And in the order in which each producer enqueued it, who counts, and waits for each commit
    but those of which it was not told.
    """
    rows = connection.execute(
        "SELECT h.key, array_agg(h.id ORDER BY e.id), array_agg(h.id ORDER BY h.id), "
        "       array_agg(e.number ORDER BY e.id) "
        "FROM pgqueue_history h JOIN chaos_effect e ON e.message_id = h.id "
        "WHERE h.ordered AND h.channel = 'ordered' GROUP BY h.key"
    )
    for key, as_they_ran, in_order, numbers in rows:
        assert as_they_ran == in_order, f"key {key!r} ran out of order"
        sure = [number for number in numbers if number not in unsure]
        by_producer = sorted(sure, key=lambda number: int(number) // NUMBERS_EACH)
        assert by_producer == sorted(sure), f"key {key!r} ran otherwise than it was enqueued"


def _check_limits(connection: Connection, *, must_be_met: bool) -> str:
    """Check by the tasks' own word that no more ran at once than was allowed; return how many.

    Only of runs that were settled: others had lost their leases, and ran on as long as they liked.
    """
    reached = []
    for whose, (group, limit) in LIMITS.items():
        row = connection.execute(
            f"WITH run AS (SELECT h.channel, h.key, r.began_at, r.ended_at "  # noqa: S608
            f"             FROM chaos_run r JOIN pgqueue_history h "
            f"                 ON h.id = r.message_id AND h.attempt = r.attempt "
            f"             WHERE r.ended_at IS NOT NULL), "
            f"change AS (SELECT {group}, began_at AS at, 1 AS step FROM run UNION ALL "
            f"           SELECT {group}, ended_at, -1 FROM run) "
            f"SELECT max(running) FROM (SELECT sum(step) OVER ("
            f"PARTITION BY {group} ORDER BY at, step) AS running FROM change) s"
        ).fetchone()
        most = row[0] if row and row[0] is not None else 0
        assert most <= limit, f"the limit {whose} is {limit}, and {most} ran"
        assert most == limit or not must_be_met, f"the limit {whose} was never met: {most} ran"
        reached.append(str(most))
    return " and ".join(reached)


def _check_pace(connection: Connection) -> None:
    """Check that no more was started than the rate allows.

    Of starts that were settled: the engine counted others, too.
    """
    starts = Starts()
    for (at,) in connection.execute(
        "SELECT claimed_at FROM pgqueue_history WHERE channel = 'paced' ORDER BY claimed_at"
    ):
        assert starts.is_within(PACE, "paced", None, at, 1), f"the rate was exceeded at {at}"


def _check_flows(connection: Connection) -> None:
    """Check that what waited for others became ready once."""
    waited = (
        "SELECT DISTINCT h.id FROM pgqueue_history h "
        "JOIN pgqueue_dependency d ON d.child_id = h.id WHERE h.outcome = 'succeeded'"
    )
    again = (
        f"SELECT w.id, count(f.message_id) FROM ({waited}) w "  # noqa: S608
        "LEFT JOIN chaos_freed f ON f.message_id = w.id GROUP BY w.id "
        "HAVING count(f.message_id) <> 1"
    )
    assert not (found := connection.execute(again).fetchall()), (
        f"became ready more or less often than once: {found[:5]}"
    )


LANES = "SELECT count(*) FROM pgqueue_lane"
# What tells of work that there is no more: each is a query that counts it.
LEFTOVERS = {
    "messages": "SELECT count(*) FROM pgqueue_message WHERE state <> 'dead'",
    "leases": "SELECT count(*) FROM pgqueue_message "
    "WHERE lease_until IS NOT NULL OR worker_id IS NOT NULL",
    "lanes": f"{LANES} WHERE state <> 'idle'",
    "bells": "SELECT count(*) FROM pgqueue_bell",
    "messages that wait for others": "SELECT count(*) FROM pgqueue_blocked b WHERE NOT EXISTS ("
    "SELECT FROM pgqueue_message m WHERE m.flow_id = b.flow_id AND m.state = 'dead')",
    "flows that have not ended": "SELECT count(*) FROM pgqueue_flow f WHERE ended_at IS NULL "
    "AND NOT EXISTS (SELECT FROM pgqueue_message m WHERE m.flow_id = f.id)",
}
# The same of what workers do as long as they are there.
UNDONE = {
    "duties that are not done": "SELECT count(*) FROM pgqueue_duty "
    "WHERE ran_at IS NULL OR ran_at > clock_timestamp() "
    "OR due_at < clock_timestamp() - interval '10 seconds'",
    "duties put off for long": "SELECT count(*) FROM pgqueue_duty "
    "WHERE due_at > clock_timestamp() + interval '25 hours'",
}


def leftovers(connection: Connection, *, of_workers: bool = False) -> dict[str, int]:
    """Count what tells of work that there is no more; nothing once everything is over.

    Args:
        of_workers: count what only workers that have not stopped do, too.
    """
    queries = {**LEFTOVERS, **(UNDONE if of_workers else {})}
    counted = {what: _count(connection, query) for what, query in queries.items()}
    return {what: count for what, count in counted.items() if count}


def what_is_left(connection: Connection) -> str:
    """Tell what keeps it from being over."""
    return "; ".join(
        f"{what}: {connection.execute(query).fetchall()}"
        for what, query in {
            "messages": "SELECT channel, task, state, count(*), min(run_at - now()), "
            "min(lease_until - now()) FROM pgqueue_message "
            "WHERE state <> 'dead' GROUP BY 1, 2, 3",
            "bells": "SELECT count(*) FROM pgqueue_bell",
            "flows": "SELECT b.*, m.state, w.state FROM pgqueue_blocked b "
            "LEFT JOIN pgqueue_message m ON m.id = b.message_id "
            "LEFT JOIN pgqueue_message w ON w.id = b.watched_id LIMIT 5",
            "lanes": "SELECT channel, key, state, wake_at FROM pgqueue_lane WHERE state <> 'idle'",
            "duties": "SELECT name, due_at - now(), ran_at - now() FROM pgqueue_duty",
        }.items()
    )


def _count(connection: Connection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def _some(numbers: Iterable[int], kinds: Mapping[int, str]) -> str:
    each = sorted(numbers)
    return f"{len(each)}, as {[(number, kinds.get(number)) for number in each[:5]]}"
