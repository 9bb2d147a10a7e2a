"""The redactors of what is stored of a durable run: results of its steps, payloads of signals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pgqueue.engine.steps import StoredStep
from pgqueue.redaction import NOWHERE, Redactor
from pgqueue.tasks import redacting
from pgqueue.tasks.redacting import RedactedColumn

_CALLED = re.compile(r'\{"task":\s*("(?:[^"\\]|\\.)*+"),\s*"(?:result|failed)"')
"""The name of a task in the result of a `gather()`, which may be cut off."""


def of_step(
    task: str,
    kind: str,
    name: str,
    signals: Sequence[str] | None = None,
    result: str | None = None,
) -> Redactor:
    """Return the redactor of a step's result.

    Args:
        signals: the names of the signals that it waits for. The first one counts.
        result: the JSON text of the result, or its beginning: it names the tasks of its calls.
    """
    if kind == "signal":
        return _in_payload(redacting.rules_of_part(task, "signals", (signals or [""])[0]))
    own = redacting.rules_of_part(task, "steps", name)
    return _in_returned(own, result) if kind == "call" and result else own


def of_signal(task: str, name: str) -> Redactor:
    """Return the redactor of a signal's payload."""
    if name.startswith("@"):
        # An event, as the dispatch sends it to the step of this name.
        return redacting.rules_of_part(task, "steps", name.removeprefix("@"))
    return redacting.rules_of_part(task, "signals", name)


def columns(task: str, steps: Iterable[StoredStep]) -> Iterator[RedactedColumn]:
    """Yield the results of steps, to be searched for redacted values."""
    for step in steps:
        if step.result is not None:
            for signal in awaited(step.name) if step.kind == "signal" else [""]:
                redactor = of_step(task, step.kind, step.name, [signal], step.result)
                yield RedactedColumn(redactor, len(step.result), partial(str, step.result))


def awaited(name: str) -> list[str]:
    """Return the signals that a step of this name may wait for: "wait:paid|cancelled#2" for two.

    A signal's own name may have these characters, too. So all readings are returned.
    """
    given = name.removeprefix("wait:")
    readings = [given, given.rpartition("#")[0] or given]
    return list(dict.fromkeys(part for each in readings for part in (each, *each.split("|"))))


def _in_payload(by: Redactor) -> Redactor:
    """Return the redactor of a step that has taken a signal: its result has the payload."""
    return Redactor(by.fields, {"payload": by.tree} if by.tree != NOWHERE else NOWHERE)


def _in_returned(by: Redactor, result: str) -> Redactor:
    """Return the redactor of a step that has gathered: its result has the results of its calls."""
    tree = by.tree
    for name in {json.loads(found[1]) for found in _CALLED.finditer(result)}:
        tree = redacting.joined(tree, redacting.rules(name).result.tree)
    if tree == NOWHERE:
        return by
    return Redactor(by.fields, redacting.joined(by.tree, {"returned": {"result": tree}}))
