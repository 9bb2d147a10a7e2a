"""The account of a run: the operations that processes logged, and a dump of the tables.

A log is a file of JSON lines, one file for each process. A line is written at once, so a process
that is killed loses at most its last line. A torn line is ignored. Each line has:

    {"op": "producer-1:17", "kind": "invoke", "do": "enqueue", "at": 81.25, "wall": …, …}
    {"op": "producer-1:17", "kind": "ok", "at": 81.26, "wall": …, "db": …, "xid": 811, …}

`kind` is "invoke", then "ok", "fail" or "unknown"; "saw" adds facts in between. All other names are
values of the operation. An operation without an end stays unknown: it may have happened or not.

`at` is the clock of the machine since its boot, in seconds, which is the same for all processes
and is never set. So the end of one operation and the begin of another can be compared.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
NOTICED = 6.0
"""Seconds in which everybody has noticed a fault, and recovered from it."""


@dataclass(frozen=True)
class Operation:
    """Something that a process did, as the process saw it.

    Attributes:
        id: the name of the process and a number.
        do: "enqueue", "publish", "run", "read", "fault", "limit" or "promotion"; "participants" has
            the names of those who take part in the load, which "stop" ends.
        began: seconds of the machine's clock.
        ended: the same; infinity if no end was logged.
        end: "ok", "fail" or "unknown".
        value: all other names of its lines; a later line wins.
    """

    id: str
    do: str
    began: float
    ended: float = inf
    end: str = "unknown"
    value: Row = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.value.get(name)

    def precedes(self, other: Operation) -> bool:
        """Return whether this operation had succeeded before the other one began."""
        return self.end == "ok" and self.ended < other.began

    @property
    def commits(self) -> float:
        """When it began to commit, or earlier if that is not known."""
        return float(self.value.get("commits", self.began))

    def __str__(self) -> str:
        until = "…" if self.ended == inf else f"{self.ended:.3f}"
        values = {name: each for name, each in self.value.items() if name != "wall"}
        return f"{self.began:.3f} to {until}  {self.id}  {self.do} {self.end}  {json.dumps(values)}"


@dataclass(frozen=True)
class Account:
    """The operations of a run and the dump at its end.

    Attributes:
        operations: in the order in which they began.
        dump: rows by the name of their table: "messages", "effects", "events", "leases", "ticks"
            and "waiting"; a table that is missing is empty.
    """

    operations: Sequence[Operation]
    dump: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table of the dump."""
        return self.dump.get(table, ())

    def doing(self, do: str) -> Iterator[Operation]:
        """Return the operations of one kind.

        The outcome of a transaction that a promotion may have lost is unknown.
        """
        return (self._in_the_end(each) for each in self.operations if each.do == do)

    def _in_the_end(self, each: Operation) -> Operation:
        is_transaction = each.do in ("enqueue", "publish") and each.end == "ok"
        if is_transaction and self.may_be_forgotten(each):
            return replace(each, end="unknown", ended=inf)
        return each

    @cached_property
    def promotions(self) -> list[Operation]:
        """The promotions of standbys that lacked the last commits of their primary.

        Commits that the old primary acknowledged before `kept_until` were kept. It acknowledged
        none after it was `killed`.
        """
        return [each for each in self.operations if each.do == "promotion" and each.end == "ok"]

    def may_be_forgotten(self, operation: Operation) -> bool:
        """Return whether the old primary of a promotion may have answered last, in vain."""
        return any(
            each["kept_until"] < operation.ended and operation.began < each["killed"]
            for each in self.promotions
        )

    def may_lack_its_lease(self, run: Operation) -> bool:
        """Return whether a promotion may have lost the claim of a run before it began."""
        return any(
            each["kept_until"] < run.began < each.ended + NOTICED for each in self.promotions
        )

    def participants(self, kind: str) -> dict[str, Operation]:
        """Return the names of the "groups", "schedules" or "observers" that the load has."""
        return {name: each for each in self.doing("participants") for name in each[kind] or ()}

    def calm(self, since: float, until: float) -> float:
        """Return the seconds between two moments in which no fault was going on."""
        return until - since - (self._faulty_until(until) - self._faulty_until(since))

    def _faulty_until(self, moment: float) -> float:
        index = bisect(self._faults, (moment, inf))
        if not index:
            return 0.0
        began, ended, before = self._faults[index - 1]
        return before + min(ended, moment) - began

    @cached_property
    def _faults(self) -> list[tuple[float, float, float]]:
        """The begin and the end of each fault, and the seconds of all faults before it."""
        found: list[tuple[float, float, float]] = []
        seconds = 0.0
        for each in self.doing("fault"):
            found.append((each.began, each.ended, seconds))
            seconds += each.ended - each.began
        return found

    @cached_property
    def enqueued(self) -> dict[int, tuple[Operation, Row]]:
        """Each message that a producer tried to enqueue, by its number, with the operation."""
        return {
            message["number"]: (each, message)
            for each in self.doing("enqueue")
            for message in each["messages"]
        }

    @cached_property
    def messages(self) -> dict[int, list[Row]]:
        """The dumped messages by their numbers: usually one row for each number."""
        return _by_number(self.rows("messages"))

    @cached_property
    def runs(self) -> dict[int, list[Operation]]:
        """The runs of each message, by its number."""
        found: dict[int, list[Operation]] = defaultdict(list)
        for each in self.doing("run"):
            found[each["number"]].append(each)
        return found

    @cached_property
    def effects(self) -> dict[str, list[Row]]:
        """The effects by what left them, each in the order in which they were left."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.rows("effects"), key=lambda row: int(row["place"])):
            found[row["what"]].append(row)
        return found

    @cached_property
    def effects_of_tasks(self) -> dict[int, list[Row]]:
        """The effects of tasks by the numbers of their messages."""
        return _by_number(self.effects["task"])

    @cached_property
    def events(self) -> list[Row]:
        """The dumped events by their positions."""
        return sorted(self.rows("events"), key=lambda row: int(row["position"]))

    def settled_runs(self, number: int) -> list[Operation]:
        """Return the runs of a message that certainly had its lease from begin to end.

        The settle is fenced, so the run that succeeded had the lease. A run that failed had it,
        too, if the message never lost one. Any other run may have lost its lease meanwhile. If a
        promotion lost the claim of a run, the next run may have the same attempt.
        """
        rows = self.messages.get(number, [])
        if len(rows) != 1:
            return []
        [row] = rows
        return [
            run
            for run in self.runs.get(number, [])
            if not self.may_lack_its_lease(run)
            and (
                (run.end == "ok" and run["attempt"] == row["attempt"] and row["end"] == "succeeded")
                or (run.end == "fail" and not row["lost"])
            )
        ]


def _by_number(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["number"]].append(row)
    return dict(found)


OF_A_LINE = {"op", "kind", "do", "at"}


def operations_of(lines: Iterable[str]) -> list[Operation]:
    """Return the operations of logs, in the order in which they began.

    Args:
        lines: of any number of processes; a torn line is ignored.
    """
    said: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        try:
            each = json.loads(line)
        except ValueError:
            continue
        said[each["op"]].append(each)
    found = [_operation(id, each) for id, each in said.items()]
    return sorted(found, key=lambda each: each.began)


def _operation(id: str, lines: Sequence[dict[str, Any]]) -> Operation:
    value = {name: each for line in lines for name, each in line.items() if name not in OF_A_LINE}
    last = lines[-1]
    is_over = last["kind"] not in ("invoke", "saw")
    return Operation(
        id,
        lines[0]["do"],
        lines[0]["at"],
        # An unknown outcome may come true at any time after the process gave up.
        last["at"] if last["kind"] in ("ok", "fail") else inf,
        last["kind"] if is_over else "unknown",
        value,
    )


def account_of(folder: Path) -> Account:
    """Read the logs (`*.jsonl`) and the dump (`dump.json`) of a folder."""
    logs = sorted(folder.glob("*.jsonl"))
    lines = [line for log in logs for line in log.read_text(errors="replace").split("\n")]
    return Account(operations_of(lines), json.loads((folder / "dump.json").read_text()))
