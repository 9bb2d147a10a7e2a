"""What is redacted of messages and events: by their tasks, and by the names of fields.

A task says it by its option `redact`. That holds for its messages wherever its code is known; the
names of `PGQUEUE["REDACT"]` hold for all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from inspect import Parameter
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import autodiscover_modules

from pgqueue import registry
from pgqueue.codec.envelope import is_envelope
from pgqueue.codec.hints import signature_of
from pgqueue.codec.references import filled
from pgqueue.conf import settings
from pgqueue.engine.values import Claim
from pgqueue.exceptions import DecryptionFailed, InvalidTask, MissingEncryptionKey
from pgqueue.redaction import NOWHERE, Hidden, Redaction, Redactor, Rules, tree_of
from pgqueue.spelling import hint

if TYPE_CHECKING:
    from pgqueue.tasks.definition import Task

logger = logging.getLogger(__name__)

RETURN = "return"
"""Paths that begin with it lead into what the task returns. No argument can have this name."""
NOT_KEPT = "[not kept: the task is encrypted]"
"""What is said in the place of an error's text."""
to_text = partial(json.dumps, ensure_ascii=False, default=str)
HARMLESS = (DecryptionFailed, MissingEncryptionKey)
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def fields() -> Redactor:
    """Return what redacts by the names of fields alone: events, and messages without a task."""
    return _by_names(settings().redact).others


def rules(task: str) -> Rules:
    """Return what redacts messages of a task; "": raw ones."""
    found = _declared(task) if task else None
    return _by_names(settings().redact) if found is None else _rules_of(found)


def everything(database: str) -> Redaction:
    """Return what is redacted of all messages, by each task that this project declares or has run.

    Args:
        database: the alias of the queue's.
    """
    # What declares tasks imports this, and may be imported before there are models.
    from pgqueue.models import Total

    autodiscover_modules("tasks")
    ran = Total.objects.using(database).values_list("task", flat=True).distinct()
    names = {*ran, *(each.name for each in registry.each())}
    by_task = {name: _rules_of(found) for name in sorted(names) if (found := _declared(name))}
    trees = {name: (by.payload.tree or {}, by.result.tree) for name, by in by_task.items()}
    some = {name: each for name, each in trees.items() if each != (NOWHERE, NOWHERE)}
    return Redaction(settings().redact, some)


def redacted_values(task: str, columns: Mapping[str, Any]) -> tuple[dict[str, Any], Hidden]:
    """Return parsed JSON columns of a message, redacted, and what hides the same in other texts.

    Args:
        task: the name of the message's task; "": none.
        columns: by name; None: they are null.
    """
    texts = {
        name: None if value is None else json.dumps(value, ensure_ascii=False)
        for name, value in columns.items()
    }
    shown, hidden = rules(task).redact(texts)
    return {name: text and json.loads(text) for name, text in shown.items()}, hidden


def hiding(claim: Claim) -> Hidden:
    """Return what hides the redacted values of a claimed message in texts.

    Of one that is encrypted, it hides all that errors say.
    """
    return EVERYTHING if _is_encrypted(claim) else hiding_of([claim])


def hiding_of_events(events: Iterable[Any]) -> Hidden:
    """Return what hides the redacted values of recorded events in texts."""
    return hiding_of([], events)


def hiding_of(claims: Iterable[Claim], events: Iterable[Any] = ()) -> Hidden:
    """Return what hides the redacted values of both in texts."""
    return Hidden([*chain(*map(_of_claim, claims)), *chain(*map(_of_event, events))])


class Everything(Hidden):
    """Hides all that errors say, but for those that can't quote what was decrypted."""

    def __init__(self) -> None:
        super().__init__(())

    def __bool__(self) -> bool:
        return True

    def __call__(self, text: str) -> str:
        """Return what stands in its place."""
        return NOT_KEPT

    def said(self, error: BaseException) -> str:
        """Return what an error says, if it can't quote."""
        return str(error) if type(error) in HARMLESS else NOT_KEPT


EVERYTHING = Everything()


def _is_encrypted(claim: Claim) -> bool:
    declared = _declared(claim.task) if claim.task else None
    return (
        (declared is not None and declared.encrypted)
        or is_envelope(claim.payload or b"")
        or any(each.is_encrypted for _, each in claim.taken)
    )


def _of_claim(claim: Claim) -> list[str]:
    by = rules(claim.task)
    others = (_values(by.others, text) for text in (claim.metadata, claim.progress))
    results = (_values(rules(each.task).result, to_text(each.plain)) for _, each in claim.taken)
    return [*_values(by.payload, _payload_of(claim)), *chain(*others, *results)]


def _payload_of(claim: Claim) -> str | bytes | None:
    """Return a payload with the results that it took."""
    if not claim.taken:
        return claim.payload
    values = {id: each.plain for id, each in claim.taken}
    return to_text(filled(json.loads(claim.payload or b"null"), values))


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


def _rules_of(task: Task[Any, Any]) -> Rules:
    return _rules(task.func, task.redact, task.takes_context, settings().redact)


@lru_cache(maxsize=10)
def _by_names(names: tuple[str, ...]) -> Rules:
    return Rules.of(names)


@lru_cache(maxsize=10_000)
def _rules(
    function: Callable[..., Any], paths: tuple[str, ...], skip_first: bool, names: tuple[str, ...]
) -> Rules:
    is_field, tree = _by_names(names).others.is_field, tree_of(paths)
    result = tree.pop(RETURN, NOWHERE)
    firsts: dict[str, Any] = {}
    for number, each in enumerate(_parameters(function, skip_first)):
        # By its position, an argument has no name in the payload.
        below = None if is_field(each.name) else tree.get(each.name, NOWHERE)
        if each.kind in POSITIONAL:
            firsts[f"[{number}]"] = below
        elif each.kind is Parameter.VAR_POSITIONAL:
            firsts["[*]"] = below
    is_some = any(below != NOWHERE for below in (*firsts.values(), tree))
    payload = {"args": firsts, "kwargs": tree} if is_some else NOWHERE
    return Rules.of(names, payload, result)


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
