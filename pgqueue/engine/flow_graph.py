"""Read flows for pages: their messages in groups, the waits between these, and the critical path.

Each statement reads a bounded number of rows. A flow within `MEMBERS` and `WAITS` is read as a
whole. Siblings are messages of one task with the same parents and the same children; they are one
node. In a larger flow, or one with too many nodes to draw, each task is a node. Its waits are read
from a few messages of each task.

The critical path is the chain of messages each of which was the last parent to end before its child
began, back from the message that ended last. A child becomes ready when the last of its parents
ends. So the flow would have ended earlier only if a message of this chain had run faster, or had
waited less.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Cursors
from pgqueue.values.readable import reading

SQL = load(__name__)

MEMBERS = 20_000
"""The most messages of a flow that is read as a whole."""
WAITS = 50_000
COUNTED = 200_000
"""Live messages that are counted, at most, and ended ones as many."""
SINGLY = 30
"""The most messages of a flow in which each message is a node."""
NODES = 60
"""Nodes that are drawn, at most."""
TASKS = 1000
"""Tasks of a flow whose messages are counted, at most."""
STEPS = 1000
"""The most messages of the critical path that are followed back."""
NEAR = 10
"""Waits of a message that are read to find the waits between tasks."""
RELATIVES = 10_000
"""Parents of a message that are read to find the ones that it waits for."""


class Relative(NamedTuple):
    """A message that another one waits for, or that waits for it.

    Attributes:
        word: its state, "waiting" if it waits for others itself, or its outcome.
    """

    id: int
    task: str
    word: str


class CriticalMessage(NamedTuple):
    """A message of the critical path."""

    id: int
    task: str
    outcome: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime


@dataclass(frozen=True, kw_only=True)
class FlowNode:
    """A message of a flow, or several siblings.

    Attributes:
        id: the lowest id of its messages.
        words: the number of its messages by their state or outcome.
        started_at: when the first of its messages began.
        finished_at: when the last of its messages ended.
        ran: the mean time of a run.
        path: the ids of its messages on the critical path.
        samples: ids of a few of its messages.
    """

    id: int
    task: str
    number: int
    words: Mapping[str, int]
    started_at: datetime | None
    finished_at: datetime | None
    ran: timedelta | None
    path: frozenset[int]
    samples: Collection[int] = ()


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A flow in the form for its drawing.

    Attributes:
        nodes: its nodes, in the order of their ids.
        waits: pairs of nodes' ids: the second waits for the first.
        critical: the pairs of `waits` on the critical path.
        words: the number of the flow's messages by their state or outcome.
        steps: the critical path, as far as it was followed back, the first message first.
        by_task: whether each node is a task.
        is_whole: whether all messages and waits were read.
    """

    nodes: Sequence[FlowNode]
    waits: frozenset[tuple[int, int]]
    critical: frozenset[tuple[int, int]]
    words: Mapping[str, int]
    steps: Sequence[CriticalMessage] = field(default_factory=list)
    by_task: bool = False
    is_whole: bool = True


def graph_of(connection: Cursors, flow_id: int) -> Graph:
    """Return a flow in the form for its drawing."""
    tasks = [*map(_node, _rows(connection, "tasks", **_of(flow_id, members=COUNTED), limit=TASKS))]
    words = sum((Counter(task.words) for task in tasks), Counter())
    path, is_whole = list[int](), words.total() <= MEMBERS
    if is_whole:
        path, is_whole = _critical_path(connection, flow_id)
    steps = _steps(connection, path)
    if is_whole:
        given = {**_of(flow_id, path=path), "waits": WAITS, "limit": NODES + 1}
        singly = words.total() <= SINGLY
        nodes = [*map(_node, _rows(connection, "siblings", **given, singly=singly))]
        if len(nodes) <= NODES:
            pairs = _rows(connection, "between", flow_id=flow_id, ids=[node.id for node in nodes])
            of = {id: node.id for node in nodes for id in node.path}
            return Graph(
                nodes=nodes,
                waits=frozenset(map(tuple, pairs)),
                critical=_pairs(of[id] for id in path),
                words=words,
                steps=steps,
            )
    return _by_task(connection, flow_id, tasks[:NODES], steps, words, is_whole)


def _by_task(
    connection: Cursors,
    flow_id: int,
    tasks: Sequence[FlowNode],
    steps: Sequence[CriticalMessage],
    words: Mapping[str, int],
    is_whole: bool,
) -> Graph:
    samples = [(id, node.task) for node in tasks for id in {*node.samples}]
    of = {node.task: node.id for node in tasks}
    pairs = _rows(
        connection,
        "between_tasks",
        flow_id=flow_id,
        ids=[id for id, _ in samples],
        tasks=[task for _, task in samples],
        each=NEAR,
    )
    critical = _pairs(of[step.task] for step in steps if step.task in of)
    known = {(of[parent], of[child]) for parent, child in pairs if {parent, child} <= of.keys()}
    return Graph(
        nodes=tasks,
        waits=frozenset(known) | critical,
        critical=critical,
        words=words,
        steps=steps,
        by_task=True,
        is_whole=is_whole,
    )


def _critical_path(connection: Cursors, flow_id: int) -> tuple[list[int], bool]:
    """Return the ids of the critical path, first to last, and whether all waits were read."""
    given = {"flow_id": flow_id, "members": MEMBERS + 1, "waits": WAITS + 1}
    [[last, waits, text]] = _rows(connection, "last_parents", **given)
    if last is None or waits > WAITS:
        return [], waits <= WAITS
    parents, path = json.loads(text or "{}"), [last]
    while len(path) < STEPS and (parent := parents.get(str(path[-1]))):
        path.append(parent)
    return path[::-1], True


def _steps(connection: Cursors, path: Sequence[int]) -> list[CriticalMessage]:
    found = {row[0]: CriticalMessage(*row) for row in _rows(connection, "times", ids=list(path))}
    return [found[id] for id in path if id in found]


def parents(connection: Cursors, flow_id: int, id: int, *, limit: int) -> list[Relative]:
    """Return the parents of a message with the lowest ids."""
    return _relatives(connection, "parents", flow_id=flow_id, id=id, limit=limit)


def children(connection: Cursors, id: int, *, limit: int) -> list[Relative]:
    """Return children of a message, in no order: `limit` of them at most."""
    return _relatives(connection, "children", id=id, limit=limit)


def missing(connection: Cursors, id: int, *, limit: int) -> list[Relative]:
    """Return the parents that a message still waits for: they have not ended, or are dead."""
    return _relatives(connection, "missing", id=id, limit=limit, bound=RELATIVES)


def on_failure(connection: Cursors, id: int) -> str | None:
    """Return the reaction of a waiting message to a parent's failure; None: it does not wait."""
    row = next(iter(_rows(connection, "on_failure", id=id)), None)
    return row[0] if row else None


def last_end(
    connection: Cursors, flow_id: int, id: int, *, before: datetime
) -> tuple[int, datetime] | None:
    """Return the parent that ended last before a moment, and its end; None: none is known."""
    given = {"flow_id": flow_id, "id": id, "bound": RELATIVES, "before": before}
    row = next(iter(_rows(connection, "last_end", **given)), None)
    return (row[0], row[1]) if row else None


def _of(flow_id: int, *, members: int | None = None, path: Sequence[int] = ()) -> dict[str, Any]:
    return {"flow_id": flow_id, "members": members or MEMBERS + 1, "path": list(path)}


def _pairs(ids: Iterable[int]) -> frozenset[tuple[int, int]]:
    return frozenset(pairwise(ids))


def _node(row: Sequence[Any]) -> FlowNode:
    id, task, number, words, started_at, finished_at, ran, path, samples = row
    return FlowNode(
        id=id,
        task=task,
        number=number,
        words=json.loads(words),
        started_at=started_at,
        finished_at=finished_at,
        ran=ran,
        path=frozenset(map(int, path.split(","))) if path else frozenset(),
        samples=samples,
    )


def _relatives(connection: Cursors, statement: str, **given: Any) -> list[Relative]:
    return [Relative(*row) for row in _rows(connection, statement, **given)]


def _rows(connection: Cursors, statement: str, **given: Any) -> list[tuple[Any, ...]]:
    with reading(connection), connection.cursor() as cursor:
        cursor.execute(SQL[statement], given)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
