"""What is redacted of messages and events: by their tasks, and by the names of fields.

A task says it by its option `redact`. That holds for its messages wherever its code is known; the
names of `PGQUEUE["REDACT"]` hold for all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from inspect import Parameter
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqueue import registry
from pgqueue.codec.hints import signature_of
from pgqueue.conf import settings
from pgqueue.engine.values import Claim
from pgqueue.exceptions import InvalidTask
from pgqueue.redaction import NOWHERE, Hidden, Redactor, tree_of
from pgqueue.spelling import hint

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task

logger = logging.getLogger(__name__)

RETURN = "return"
"""Paths that begin with it lead into what the task returns. No argument can have this name."""
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Rules(NamedTuple):
    """What redacts the columns of a message."""

    payload: Redactor
    result: Redactor
    others: Redactor

    def of(self, column: str) -> Redactor:
        """Return what redacts a column."""
        by = {"payload": self.payload, "result": self.result}
        return by.get(column.removesuffix("_text"), self.others)


def fields() -> Redactor:
    """Return what redacts by the names of fields alone: events, and messages without a task."""
    return _by_names(settings().redact)


def rules(task: str) -> Rules:
    """Return what redacts messages of a task; "": raw ones."""
    found = _declared(task) if task else None
    return Rules(fields(), fields(), fields()) if found is None else rules_of(found)


def rules_of(task: Task[Any, Any]) -> Rules:
    """Return what redacts messages of a task."""
    return _rules(task.func, task.redact, task.takes_context, settings().redact)


def redacted(task: str, columns: Mapping[str, str | None]) -> tuple[dict[str, str | None], Hidden]:
    """Return the JSON columns of a message, redacted, and what hides the same in other texts.

    What was redacted in one column is hidden in the others, too, where it occurs literally.

    Args:
        task: the name of the message's task; "": none.
        columns: JSON texts, or their beginnings, by name: payload, metadata, result and so on;
            also with "_text" behind it.
    """
    by, given = rules(task), {name: text for name, text in columns.items() if text is not None}
    hidden = Hidden(value for name, text in given.items() for value in by.of(name).values(text))
    shown = {name: hidden.in_json(by.of(name).redact(text)) for name, text in given.items()}
    return {name: shown.get(name) for name in columns}, hidden


def redacted_values(task: str, columns: Mapping[str, Any]) -> tuple[dict[str, Any], Hidden]:
    """Return the same of columns that are parsed; None: they are null."""
    texts = {
        name: None if value is None else json.dumps(value, ensure_ascii=False)
        for name, value in columns.items()
    }
    shown, hidden = redacted(task, texts)
    return {name: text and json.loads(text) for name, text in shown.items()}, hidden


def hiding(claim: Claim) -> Hidden:
    """Return what hides the redacted values of a claimed message in texts."""
    return hiding_of([claim])


def hiding_of_events(events: Iterable[Any]) -> Hidden:
    """Return what hides the redacted values of recorded events in texts."""
    return hiding_of([], events)


def hiding_of(claims: Iterable[Claim], events: Iterable[Any] = ()) -> Hidden:
    """Return what hides the redacted values of both in texts."""
    return Hidden([*chain(*map(_of_claim, claims)), *chain(*map(_of_event, events))])


def _of_claim(claim: Claim) -> list[str]:
    by = rules(claim.task)
    return [*_values(by.payload, claim.payload), *_values(by.others, claim.metadata)]


def _of_event(event: Any) -> list[str]:
    by = fields()
    return [*_values(by, event.payload_json), *_values(by, event.metadata_json)]


def check(task: Task[Any, Any]) -> None:
    """Check that what a task redacts are arguments of its function.

    Raises:
        InvalidTask: one is not.
    """
    parameters = _parameters(task.func, task.takes_context)
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters]
    for path in task.redact:
        name = path.partition(".")[0]
        if name != RETURN and name not in known:
            raise InvalidTask(
                f"{task.name}: redact names {path!r}, but it has no argument {name!r}. "
                f"{hint(name, known) if known else 'It has none.'}"
            )


@lru_cache(maxsize=10)
def _by_names(names: tuple[str, ...]) -> Redactor:
    return Redactor(names)


@lru_cache(maxsize=10_000)
def _rules(
    function: Callable[..., Any], paths: tuple[str, ...], skip_first: bool, names: tuple[str, ...]
) -> Rules:
    by_names, tree = _by_names(names), tree_of(paths)
    result = tree.pop(RETURN, NOWHERE)
    firsts: dict[str, Any] = {}
    for number, each in enumerate(_parameters(function, skip_first)):
        # By its position, an argument has no name in the payload.
        below = None if by_names.is_field(each.name) else tree.get(each.name, NOWHERE)
        if each.kind in POSITIONAL:
            firsts[f"[{number}]"] = below
        elif each.kind is Parameter.VAR_POSITIONAL:
            firsts["[*]"] = below
    is_some = any(below != NOWHERE for below in (*firsts.values(), tree))
    payload = Redactor(names, {"args": firsts, "kwargs": tree}) if is_some else by_names
    return Rules(payload, Redactor(names, result), by_names)


def _declared(name: str) -> Task[Any, Any] | None:
    try:
        return registry.find(name)
    except Exception:
        logger.exception("The task %s can't be imported", name)
        return None


def _parameters(function: Callable[..., Any], skip_first: bool) -> list[Parameter]:
    return list(signature_of(function).parameters.values())[skip_first:]


def _values(redactor: Redactor, text: str | bytes | None) -> list[str]:
    if not text:
        return []
    return redactor.values(text if isinstance(text, str) else text.decode("utf-8", "replace"))
