"""The waits of a durable run: for a time, for signals, for events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections

from pgqueue.codec.arguments import parse, read
from pgqueue.codec.encoding import ANYTHING, PayloadHint
from pgqueue.codec.json_text import from_json
from pgqueue.durable.records import waiting_row
from pgqueue.durable.suspending import SuspendableRun, Until, suspend
from pgqueue.engine import event_waits, log
from pgqueue.engine import steps as engine
from pgqueue.engine.steps import StoredStep
from pgqueue.engine.values import Cursors
from pgqueue.events.reading import as_position, check_bounds
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidStep
from pgqueue.options.filters import Filter, as_filter, as_topic
from pgqueue.tasks import encryption
from pgqueue.tasks.signalling import SIGNAL, check_name
from pgqueue.values.names import as_key

LOOKED = '{"looked": true}'
"""The result of a step that waits for an event: the run has looked at the events before."""


class Signal(NamedTuple):
    """A signal that a run has waited for."""

    name: str
    payload: Any


def sleep(run: SuspendableRun, name: str, until: Until) -> None:
    """Wait for a time."""
    found = run.records.find(name)
    if found is None:
        suspend(run, until, waiting_row(run.records.new(name, "sleep", state="waiting")))
    if found.state == "waiting":
        if not found.is_over:
            suspend(run, Until(time=found.until))
        run.records.note_value(found._replace(state="done"))


def signal(
    run: SuspendableRun, name: str, names: Sequence[str], until: Until, type: Any = None
) -> dict[str, Any] | None:
    """Wait for the first signal with one of the names; return None if the time is over.

    Args:
        type: the type hint of its payload. The admin makes a form of it.
    """
    for each in names:
        check_name(each)
    run.records.begin_wait(names)
    found = run.records.find(name)
    step = found or run.records.new(name, "signal", state="waiting", function=_name_of(type))
    if step.state == "waiting":
        step = _taken(run, step, names, until, is_new=found is None)
    return None if step.result is None else from_json(step.result)


def _taken(
    run: SuspendableRun, step: StoredStep, names: Sequence[str], until: Until, *, is_new: bool
) -> StoredStep:
    """Return the step with the signal that came, or without one if its time is over."""
    with run.records.sending_values() as values:
        taken = engine.take_signal(connections[run.database], run.claim, step, names, values=values)
    run.records.check_kept(taken.came_of)
    if taken.came_of == "none":
        if is_new:
            suspend(run, until, waiting_row(step, names), is_woken=True)
        suspend(run, Until(time=step.until), is_woken=True)
    step = step._replace(state="done", result=taken.result)
    run.records.note(step)
    return step


def _name_of(hint: Any) -> str:
    """Return the import path of a class at the top of a module; "": the hint is something else."""
    is_class = isinstance(hint, type) and "." not in hint.__qualname__
    return f"{hint.__module__}.{hint.__qualname__}" if is_class else ""


def payload(run: SuspendableRun, taken: Mapping[str, Any], type: Any) -> Any:
    """Return the payload of a signal, by a type hint.

    Raises:
        UnreadablePayload: it is not of this type.
    """
    what = f"the payload of the signal {taken['name']!r} to {run.task.name}"
    plain = encryption.opened(run.claim.task, SIGNAL, taken["payload"])
    return read(what, ANYTHING if type is None else PayloadHint(type), plain)


# --- Events


@dataclass(frozen=True)
class Wanted:
    """The event that a run waits for.

    Attributes:
        kind: its class; None: see `RecordedEvent`.
    """

    topic: str
    key: str | None
    conditions: Filter
    kind: type[Event] | None

    @classmethod
    def checked(cls, topic: Any, key: Any, where: Mapping[str, Any] | None) -> Wanted:
        """Return the event that these arguments ask for.

        Raises:
            InvalidEvent: the topic is invalid.
            InvalidStep: the key is invalid.
            InvalidFilter: a condition is invalid.
        """
        kind = topic if isinstance(topic, type) and issubclass(topic, Event) else None
        name = as_topic(kind.topic if kind else topic)
        try:
            own = None if key is None else as_key(key)
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"key={key!r:.99} of a wait for {name!r}: {error}") from error
        return cls(name, own, as_filter(name, where), kind)

    def read(self, stored: Mapping[str, Any]) -> Any:
        """Return the event of its JSON.

        Raises:
            UnreadableEvent: it does not fit the class.
        """
        event = RecordedEvent.from_plain(stored)
        return event if self.kind is None else event.as_event(self.kind)


def event(
    run: SuspendableRun, name: str, wanted: Wanted, after: int | None, until: Until
) -> dict[str, Any] | None:
    """Wait for an event, and return its JSON; None: the time is over."""
    connection = connections[run.database]
    step = run.records.find(name) or _registered(run, name, wanted, until)
    if step.state == "waiting" and step.result is None:
        found = _look(connection, wanted, _start(run, after))
        if found is None:
            row = waiting_row(step, [f"@{name}"]) | {"result": json.loads(LOOKED)}
            suspend(run, Until(time=step.until) if step.until else until, row, is_woken=True)
        step = run.records.store(step._replace(state="done", result=_as_signal(found)))
        event_waits.remove(connection, run.claim.id, name)
    elif step.state == "waiting":
        step = _taken(run, step, [f"@{name}"], until, is_new=False)
        if step.result is None:
            event_waits.remove(connection, run.claim.id, name)
    return None if step.result is None else parse(f"the event of {name}", step.result)["payload"]


def _registered(run: SuspendableRun, name: str, wanted: Wanted, until: Until) -> StoredStep:
    """Store the wait: from the end of the log on, the dispatch looks for the event."""
    step = run.records.new(name, "event", state="waiting")
    connection = connections[run.database]
    with run.records.transaction():
        step = run.records.store(step, delay=until.delay, until=until.time)
        event_waits.add(
            connection,
            run.claim.id,
            name,
            topic=wanted.topic,
            key=wanted.key,
            path=wanted.conditions.path,
            variables=wanted.conditions.variables,
        )
    return step


def _start(run: SuspendableRun, after: int | None) -> int:
    """Return the position behind which an event counts."""
    if after is not None:
        return as_position(after)
    # Events have the order of their commits: every later event is behind this position.
    return log.position_at(connections[run.database], run.claim.created_at)


def _look(connection: Cursors, wanted: Wanted, after: int) -> log.StoredEvent | None:
    """Return the first event behind a position, up to the end of the log."""
    condition, given = wanted.conditions.sql, dict(wanted.conditions.parameters)
    if wanted.key is not None:
        condition += " AND e.key = %(wanted_key)s"
        given["wanted_key"] = wanted.key
    while True:
        stretch = log.read(connection, after=after, limit=1, condition=condition, parameters=given)
        check_bounds(after, stretch)
        if stretch.events:
            return stretch.events[0]
        after = stretch.upto
        if after >= stretch.head:
            return None


def _as_signal(event: log.StoredEvent) -> str:
    """Return an event as the dispatch sends it: `event_waits.match` writes the same JSON."""
    fields = {
        "position": str(event.position),
        "topic": json.dumps(event.topic),
        "key": json.dumps(event.key),
        "payload": event.payload or "null",
        "metadata": event.metadata,
        "created_at": json.dumps(event.created_at.isoformat()),
    }
    # The payload stays as it is: no number loses a digit.
    inner = ", ".join(f"{json.dumps(name)}: {text}" for name, text in fields.items())
    return f'{{"payload": {{{inner}}}}}'
