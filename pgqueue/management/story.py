"""The facts about one message, for commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import connections

from pgqueue.codec.envelope import token_in
from pgqueue.database.migration_check import needing_tables
from pgqueue.durable.seen import as_json, seen
from pgqueue.engine import flow_graph
from pgqueue.engine.errors import entries
from pgqueue.engine.flow_graph import Relative
from pgqueue.listing.index import without
from pgqueue.listing.messages import children
from pgqueue.management.columns import aligned
from pgqueue.management.rows import plain
from pgqueue.models import History, Message, Worker
from pgqueue.tasks import redacting
from pgqueue.tasks.options import weight_of
from pgqueue.values.escaping import in_lines, on_one_line

CHILDREN = 100
"""The most enqueued messages, parents and children that are named, each."""
COLUMNS = ("id", "task", "channel", "key", "priority", "attempt", "failures", "lost",
           "max_attempts", "created_at", "run_at", "expires_at", "claimed_at", "started_at",
           "cancel_requested_at", "ordered", "dedupe_key", "parent_id", "flow_id")  # fmt: skip
INDENT = "    "
STEPS = 1000
"""The most steps, and signals, that are shown: the last ones."""
EXCERPT = 64 * 1024
"""Characters of a step's result that are shown."""
OF_THE_BODY = ("payload", "metadata", "options", "progress", "result")
APART = (*OF_THE_BODY, "errors", "worker", "children", "waits_for", "awaited_by", "steps",
         "signals", "signals_out")  # fmt: skip


def story(alias: str, id: int) -> dict[str, Any] | None:
    """Return the facts about a message; None: no message has this id."""
    with needing_tables(alias), without(alias, "seqscan"):
        live = Message.objects.using(alias).filter(pk=id).first()
        if live is not None:
            return _told(alias, live, live.state, {"lease_until": plain(live.lease_until)})
        ended = History.objects.using(alias).filter(pk=id).first()
        if ended is not None:
            return _told(alias, ended, ended.outcome, {"finished_at": plain(ended.finished_at)})
    return None


def _told(alias: str, row: Any, state: str, own: Mapping[str, Any]) -> dict[str, Any]:
    columns = {name: getattr(row, name, None) for name in OF_THE_BODY}
    shown, hidden = redacting.redacted_values(row.task, columns)
    seen_steps = seen(connections[alias], row.id, row.task, hidden, limit=STEPS, excerpt=EXCERPT)
    return {
        "id": row.id,
        "state": state,
        **{name: plain(getattr(row, name)) for name in COLUMNS[1:]},
        "weight": weight_of(row.options),
        "lease_until": None,
        "finished_at": None,
        **own,
        "body_size": None if row.body is None else len(row.body),
        **shown,
        "worker": None if row.worker_id is None else _worker(alias, row.worker_id),
        "children": children(alias, row.id)[:CHILDREN],
        **_waits(alias, row),
        "errors": seen_steps.hidden.in_value(hidden.in_value(entries(row.errors))),
        **as_json(seen_steps),
    }


def _waits(alias: str, row: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the parents and the children of a message within its flow."""
    parents: list[Relative] = []
    waiting: list[Relative] = []
    if row.flow_id is not None:
        connection = connections[alias]
        parents = flow_graph.parents(connection, row.flow_id, row.id, limit=CHILDREN)
        waiting = flow_graph.children(connection, row.id, limit=CHILDREN)
    return {"waits_for": _named_each(parents), "awaited_by": _named_each(waiting)}


def _named_each(found: Sequence[Relative]) -> list[dict[str, Any]]:
    return [{"id": each.id, "task": each.task, "state": each.word} for each in found]


def _worker(alias: str, id: Any) -> dict[str, Any]:
    """Return the last worker of a message; its row is deleted some time after its stop."""
    row = Worker.objects.using(alias).filter(pk=id).values("host", "pid").first()
    return {"id": str(id), **(row or {"host": None, "pid": None})}


def as_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a story for people."""
    yield from aligned(list(_facts(found)))
    for name in OF_THE_BODY:
        yield from _body(name, found[name])
    yield from _steps(found)
    for error in found["errors"]:
        yield from _error(error)


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if name not in APART and value is not None and value != "":
            yield name.replace("_", " "), str(value)
    if worker := found["worker"]:
        yield "worker", _named(worker)
    if found["children"]:
        yield "children", ", ".join(map(str, found["children"]))
    for name in ("waits_for", "awaited_by"):
        if found[name]:
            each = ", ".join(f"{other['id']} {other['state']}" for other in found[name])
            yield name.replace("_", " "), each


def _body(name: str, value: Any) -> Iterator[str]:
    if token_in(value) is not None:
        yield f"{name}: encrypted"
    elif value not in (None, {}):
        yield f"{name}:"
        yield from _indented(json.dumps(value, indent=2, ensure_ascii=False))


def _error(error: Mapping[str, Any]) -> Iterator[str]:
    release = f", in the release {error['release']}" if error.get("release") else ""
    yield on_one_line(f"attempt {error.get('attempt')} failed at {error.get('at')}{release}:")
    said = f"{error.get('class')}: {error.get('message')}"
    yield from _indented(error.get("traceback") or said)


def _steps(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the steps, and of the signals to it and from it."""
    for step in found["steps"]:
        said = [f"step {step['number']}", step["name"], step["kind"], step["state"]]
        if step["until"]:
            said.append(f"until {step['until']}")
        if step["tries"] > 1:
            said.append(f"tried {step['tries']} times")
        if step["unvisited"]:
            said.append("not called by the last run")
        if isinstance(step["error"], dict):
            said.append(f"{step['error'].get('class')}: {step['error'].get('message')}")
        if step["result"] is not None:
            said.append(json.dumps(step["result"], ensure_ascii=False))
        yield on_one_line(" ".join(said))
    for signal in found["signals"]:
        sender = f" from {signal['sender_id']}" if signal["sender_id"] else ""
        payload = json.dumps(signal["payload"], ensure_ascii=False)
        yield on_one_line(f"signal {signal['name']}{sender} {_course(signal)}: {payload}")
    for signal in found["signals_out"]:
        yield on_one_line(f"signal {signal['name']} to {signal['message_id']} {_course(signal)}")


def _course(signal: Mapping[str, Any]) -> str:
    taken = f"taken by {signal['taken_by']}" if signal["taken_by"] else "not taken yet"
    return f"at {signal['sent_at']}, {taken}"


def _named(worker: Mapping[str, Any]) -> str:
    if worker["host"] is None:
        return f"{worker['id']}, gone"
    return f"{worker['host']}:{worker['pid']} ({worker['id']})"


def _indented(text: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"{INDENT}{in_lines(line)}"
