"""The steps and signals of a message, live or ended, redacted for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pgqueue.codec.envelope import is_envelope, token_in
from pgqueue.durable import redactors
from pgqueue.engine import steps as engine
from pgqueue.engine.steps import SeenSignal, SeenStep, SentSignal
from pgqueue.engine.values import Cursors
from pgqueue.redaction import Hidden, Redactor
from pgqueue.values.discovery import imported
from pgqueue.values.instants import aware

OPEN = ("waiting", "retrying")
"""The states of a step that is not over."""


@dataclass(frozen=True)
class SeenSteps:
    """The last steps of a message, and the last signals to it and from it.

    Attributes:
        sent: signals from its runs to messages that are live.
        is_all: whether there are no further ones.
        hidden: removes the redacted values of both from other texts, such as errors.
        cut: the names of steps, and the ids of signals, whose value is longer than the excerpt.
    """

    steps: list[SeenStep]
    signals: list[SeenSignal]
    sent: list[SentSignal]
    is_all: bool
    hidden: Hidden
    cut: frozenset[str | int] = frozenset()

    @property
    def open(self) -> SeenStep | None:
        """The step that the message waits for, or tries again; None: it waits for none."""
        return next((each for each in reversed(self.steps) if each.state in OPEN), None)

    @property
    def awaited(self) -> list[str]:
        """The names of the signals that the message waits for."""
        step = self.open
        return [] if step is None or step.kind != "signal" else list(step.signals or [])

    def type_of(self, signal: str) -> Any:
        """Return the class of a signal's payload, if the message waits for it by this class.

        Nothing is imported: the class is found if the module of the task has imported it.
        """
        step = self.open
        return imported(step.function) if step and signal in self.awaited else None


def seen(
    connection: Cursors, id: int, task: str, hidden: Hidden, *, limit: int, excerpt: int
) -> SeenSteps:
    """Return the last steps of a message and the last signals to it and from it, redacted.

    Args:
        task: the name of the message's task.
        hidden: hides the redacted values of its other columns.
        limit: the most steps, and the most signals.
        excerpt: the most characters of a value.
    """
    steps = engine.seen(connection, id, limit=limit + 1, excerpt=excerpt)
    signals = engine.signals(connection, id, limit=limit + 1, excerpt=excerpt)
    sent = engine.signals_out(connection, id, limit=limit + 1)
    is_all = max(len(steps), len(signals), len(sent)) <= limit
    steps, signals = steps[-limit:], signals[-limit:]
    results = [
        _Redacted(
            each.result,
            redactors.of_step(task, each.kind, each.name, each.signals, each.result),
        )
        for each in steps
    ]
    payloads = [_Redacted(each.payload, redactors.of_signal(task, each.name)) for each in signals]
    own = Hidden(value for each in (*results, *payloads) for value in each.values())
    return SeenSteps(
        [
            step._replace(
                result=result.shown(hidden, own),
                error=step.error and own.in_json(hidden.in_json(step.error)),
            )
            for step, result in zip(steps, results, strict=True)
        ],
        [
            signal._replace(payload=payload.shown(hidden, own))
            for signal, payload in zip(signals, payloads, strict=True)
        ],
        sent[-limit:],
        is_all,
        own,
        # Redaction changes the length of a text.
        frozenset(
            [each.name for each in steps if len(each.result or "") >= excerpt]
            + [each.id for each in signals if len(each.payload or "") >= excerpt]
        ),
    )


class _Redacted(NamedTuple):
    text: str | None
    redactor: Redactor

    def values(self) -> list[str]:
        return self.redactor.values(self.text) if self.text else []

    def shown(self, *hidden: Hidden) -> str | None:
        if self.text is None or is_envelope(self.text):
            return self.text
        text = self.redactor.redact(self.text)
        for each in hidden:
            text = each.in_json(text)
        return text


def ids_of(step: SeenStep) -> list[int]:
    """Return the ids of the messages that a step has stored."""
    if step.kind != "call" or not step.result or is_envelope(step.result):
        return []
    try:
        result = json.loads(step.result)
    except ValueError:  # it was cut off
        return []
    found = result.get("ids") if isinstance(result, dict) else None
    return [id for id in found if isinstance(id, int)] if isinstance(found, list) else []


def as_json(found: SeenSteps) -> dict[str, list[dict[str, Any]]]:
    """Return the steps and the signals as JSON."""
    return {
        "steps": [_plain(each._asdict()) for each in found.steps],
        "signals": [_plain(each._asdict()) for each in found.signals],
        "signals_out": [_plain(each._asdict()) for each in found.sent],
    }


def _plain(columns: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_each_plain(columns))


def _each_plain(columns: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in columns.items():
        if isinstance(value, datetime):
            yield name, aware(value).astimezone(UTC).isoformat()
        elif name in ("result", "error", "payload") and value is not None:
            yield name, _parsed(value)
        else:
            yield name, value


def _parsed(text: str) -> Any:
    """Return parsed JSON; of what is encrypted, or was cut off, its text."""
    try:
        plain = json.loads(text)
    except ValueError:
        return text
    return "encrypted" if token_in(plain) is not None else plain
