"""Redact messages and events by the rules of their tasks, and by the names of fields.

A task declares its redacted arguments by its option `redact`. This rule applies to its messages
wherever its code is known. The names of `PGQUEUE["REDACT"]` apply to all messages and events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from inspect import Parameter
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol, get_args

from django.utils.module_loading import autodiscover_modules

from pgqueue.codec.encoding import Returned
from pgqueue.codec.envelope import is_envelope
from pgqueue.codec.hints import signature_of
from pgqueue.codec.references import filled
from pgqueue.conf import settings
from pgqueue.engine.values import Claim
from pgqueue.exceptions import DecryptionFailed, InvalidTask, MissingEncryptionKey
from pgqueue.redaction import (
    MASK,
    NOWHERE,
    Hidden,
    Redaction,
    RedactionRules,
    Redactor,
    Tree,
    tree_of,
)
from pgqueue.tasks import registry
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.error_words import hint
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import is_own

logger = logger_of(__name__)

RETURN = "return"
"""The first part of a path into the return value. No argument can have this name."""
Part = Literal["steps", "signals"]
"""The first part of a path into a step's result, or a signal's payload: a name follows it."""
TOO_DEEP = "[nested too deeply to be shown]"
NOT_KEPT = "[not kept: the task is encrypted]"
"""The text in place of an error's own text."""
NOT_LOOKED_THROUGH = "[not shown: the arguments are too large to search for redacted values]"
"""The text in place of an error's own text."""
MOST_BYTES = 4 * 2**20
"""The limit of a run's arguments and results that are searched for field names: 0.1 s."""
LOOKED_THROUGH = 2**20
"""The limit of characters that are parsed, of the columns with such names: 0.5 s."""
to_text = partial(json.dumps, ensure_ascii=False, default=str)
_MARKED = re.compile(re.escape(MASK) + r" in #([0-9]+)")
HARMLESS = (DecryptionFailed, MissingEncryptionKey)
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def fields() -> Redactor:
    """Return the redactor by field names alone, for events and for messages without a task."""
    return _by_names(settings().redact).others


def rules(task: str) -> RedactionRules:
    """Return the redaction rules for messages of a task; "": for raw messages."""
    found = _declared(task) if task else None
    return _by_names(settings().redact) if found is None else _rules_of(found)


def rules_of_part(task: str, part: Part, name: str) -> Redactor:
    """Return the redactor of the results of a step, or of the payloads of a signal.

    The paths of the task's arguments apply to these values, too.

    Args:
        name: of the step, or of the signal. The rules of its name without a number behind it, as in
            "charge#2" or "order #7", apply, too.
    """
    found = _declared(task) if task else None
    paths = () if found is None else found.redact
    return _rules_of_part(paths, part, name, settings().redact)


def everything(database: str) -> Redaction:
    """Return the redaction rules of each task that this project declares or has run.

    Args:
        database: the alias of the queue's database.
    """
    # Modules that declare tasks import this one, perhaps before the models are loaded.
    from pgqueue.models import Total

    autodiscover_modules("tasks")
    ran = Total.objects.using(database).values_list("task", flat=True).distinct()
    names = {*ran, *(name for each in registry.each() for name in each.names)}
    by_task = {name: _rules_of(found) for name in sorted(names) if (found := _declared(name))}
    trees = {name: (by.payload.tree or {}, by.result.tree) for name, by in by_task.items()}
    some = {name: each for name, each in trees.items() if each != (NOWHERE, NOWHERE)}
    return Redaction(settings().redact, some)


def redacted_values(task: str, columns: Mapping[str, Any]) -> tuple[dict[str, Any], Hidden]:
    """Return a message's redacted columns, and the `Hidden` that removes the values from texts.

    Args:
        task: the name of the message's task; "": none.
        columns: parsed JSON columns by name; None: the column is null.
    """
    texts = {
        name: None if value is None else json.dumps(value, ensure_ascii=False)
        for name, value in columns.items()
    }
    shown, hidden = rules(task).redact(texts)
    return {name: text and json.loads(text) for name, text in shown.items()}, hidden


def redacted_call(task: str, args: Any, kwargs: Any) -> tuple[Any, Any, Hidden]:
    """Return a schedule's arguments, redacted like its messages.

    Args:
        task: the name of the schedule's task.
        args, kwargs: parsed JSON.

    Returns:
        Both, and the `Hidden` that removes the redacted values from texts.
    """
    try:
        shown, hidden = redacted_values(task, {"payload": {"args": args, "kwargs": kwargs}})
    except RecursionError:  # Python writes no document that is nested too deeply
        return TOO_DEEP, TOO_DEEP, EVERYTHING
    return shown["payload"]["args"], shown["payload"]["kwargs"], hidden


class RedactedColumn(NamedTuple):
    """A column that may have redacted values.

    Attributes:
        size: the approximate number of its bytes.
        text: a function that returns it as JSON text.
    """

    redactor: Redactor
    size: int
    text: Callable[[], str | bytes | None]


class RedactedRun(Protocol):
    """A run, a `TaskContext`, as far as its redacted values are concerned."""

    claim: Claim

    def stored_columns(self) -> Iterable[RedactedColumn]:
        """Return the values that are stored beside its message."""


def hiding_run(run: RedactedRun) -> Hidden:
    """Return the `Hidden` that removes the redacted values of a run from texts: see `hiding`."""
    return hiding(run.claim, run.stored_columns())


def hiding(claim: Claim, columns: Iterable[RedactedColumn] = ()) -> Hidden:
    """Return the `Hidden` that removes the redacted values of a claimed message from texts.

    For an encrypted message, it hides the texts of errors and the local variables of their frames.
    For a task of pgqueue itself, it hides these variables: they are URLs and secrets of webhooks.

    A worker calls this for each failure while it holds leases. So this searches a bounded number of
    bytes. If the arguments and results are larger, and may have redacted values, the errors' texts
    are hidden.

    Args:
        columns: what else of its run may have redacted values.
    """
    if _is_encrypted(claim):
        return EVERYTHING
    keeps_locals = not is_own(claim.task or "")
    return _hidden(chain(_of_claim(claim), columns), keeps_locals=keeps_locals)


def hiding_of_events(events: Iterable[Any]) -> Hidden:
    """Return the `Hidden` that removes the redacted values of recorded events from texts."""
    return hiding_of([], events)


def hiding_of(claims: Iterable[Claim], events: Iterable[Any] = ()) -> Hidden:
    """Return the `Hidden` that removes the redacted values of both from texts."""
    return _hidden(chain(*map(_of_claim, claims), *map(_of_event, events)))


def columns_of(claims: Iterable[Claim]) -> Iterator[RedactedColumn]:
    """Return the values of claimed messages, to search them for redacted values."""
    return chain.from_iterable(map(_of_claim, claims))


def _hidden(parts: Iterable[RedactedColumn], *, keeps_locals: bool = True) -> Hidden:
    looked_at = [part for part in parts if part.size and not part.redactor.is_idle]
    if sum(part.size for part in looked_at) > MOST_BYTES:
        return TOO_LARGE
    values: list[str] = []
    left = LOOKED_THROUGH
    for part in looked_at:
        text = _as_text(part.text())
        if not part.redactor.may_redact(text):
            continue
        left -= len(text)
        if left < 0:
            return TOO_LARGE
        values += part.redactor.values(text)
    return Hidden(values, keeps_locals=keeps_locals)


class Everything(Hidden):
    """Hides the texts of all errors, except of classes that never quote decrypted values."""

    def __init__(self, instead: str = NOT_KEPT) -> None:
        super().__init__((), keeps_locals=False)
        self._instead = instead

    def __bool__(self) -> bool:
        return True

    def __call__(self, text: str) -> str:
        """Return the text that replaces it."""
        return self._instead

    def shown(self, text: str) -> str:
        """Return the text that replaces it."""
        return self._instead

    def said(self, error: BaseException) -> str:
        """Return the text of an error if its class never quotes values, else the replacement."""
        return str(error) if type(error) in HARMLESS else self._instead


EVERYTHING = Everything()
TOO_LARGE = Everything(NOT_LOOKED_THROUGH)


def _is_encrypted(claim: Claim) -> bool:
    declared = _declared(claim.task) if claim.task else None
    return (
        (declared is not None and declared.encrypted)
        or is_envelope(claim.payload or b"")
        or any(each.is_encrypted for _, each in claim.taken)
    )


def _of_claim(claim: Claim) -> Iterator[RedactedColumn]:
    by = rules(claim.task)
    taken = [each for _, each in claim.taken]
    # The places of results matter only to paths into the payload. Each result is searched for
    # field names anyway.
    places = taken if by.payload.tree != NOWHERE else []
    size = len(claim.payload or b"") + sum(each.size for each in places)
    yield RedactedColumn(
        by.payload, size, partial(_payload_of, claim) if places else lambda: claim.payload
    )
    for column in (claim.metadata, claim.progress):
        yield RedactedColumn(by.others, len(column or b""), partial(_as_text, column))
    for each in taken:
        yield RedactedColumn(rules(each.task).result, each.size, partial(to_text, each.plain))


def _payload_of(claim: Claim) -> str | bytes | None:
    """Return a payload with its parents' results filled in."""
    values = {id: each.plain for id, each in claim.taken}
    return to_text(filled(json.loads(claim.payload or b"null"), values))


def exposed(task: str, payload: Any, results: Mapping[int, Returned]) -> int | None:
    """Return the id of a result whose redacted values the arguments of a task would show.

    Names of fields are redacted in arguments, too, so only paths into return values matter.

    Args:
        payload: parsed JSON with references to the results.
        results: the results by the ids of their messages.
    """
    marked = {}
    for id, each in results.items():
        redactor = rules(each.task).result
        if redactor.tree != NOWHERE:
            mark = json.dumps(f"{MASK} in #{id}")
            text = redactor.redact(to_text(each.plain)).replace(json.dumps(MASK), mark)
            marked[id] = json.loads(text)
    if not marked:
        return None
    shown = rules(task).payload.redact(to_text(filled(payload, marked)))
    found = _MARKED.search(shown)
    return int(found[1]) if found else None


def _of_event(event: Any) -> Iterator[RedactedColumn]:
    by = fields()
    for text in (event.payload_json, event.metadata_json):
        yield RedactedColumn(by, len(text or ""), partial(str, text or ""))


def check(task: Declaration[Any, Any]) -> None:
    """Check that the redacted paths of a task begin with arguments of its function.

    Raises:
        InvalidTask: a path begins with another name.
    """
    parameters = _parameters(task.func, task.takes_context)
    parts = get_args(Part) if task.durable else ()
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters]
    for path in task.redact:
        name = path.partition(".")[0]
        if name != RETURN and name not in known and not (name in parts and "." in path):
            raise InvalidTask(
                f"{task.name}: redact names {path!r}, but it has no argument {name!r}. "
                f"{hint(name, known) if known else 'It has none.'}"
            )


def _rules_of(task: Declaration[Any, Any]) -> RedactionRules:
    return _rules(task.func, task.redact, task.takes_context, settings().redact)


@lru_cache(maxsize=10)
def _by_names(names: tuple[str, ...]) -> RedactionRules:
    return RedactionRules.of(names)


@lru_cache(maxsize=10_000)
def _rules(
    function: Callable[..., Any], paths: tuple[str, ...], skip_first: bool, names: tuple[str, ...]
) -> RedactionRules:
    is_field, tree = _by_names(names).others.is_field, tree_of(paths)
    result = tree.pop(RETURN, NOWHERE)
    parameters = _parameters(function, skip_first)
    firsts: dict[str, Any] = {}
    for number, each in enumerate(parameters):
        # A positional argument has no name in the payload.
        below = None if is_field(each.name) else tree.get(each.name, NOWHERE)
        if each.kind in POSITIONAL:
            firsts[f"[{number}]"] = below
        elif each.kind is Parameter.VAR_POSITIONAL:
            firsts["[*]"] = below
        elif each.kind is Parameter.VAR_KEYWORD:
            tree = _with_others(
                tree, below, [each.name for each in parameters if each.kind in NAMED]
            )
    is_some = any(below != NOWHERE for below in (*firsts.values(), tree))
    payload = {"args": firsts, "kwargs": tree} if is_some else NOWHERE
    return RedactionRules.of(names, payload, result)


def _with_others(
    tree: Mapping[str, Any], below: Tree | None, named: Sequence[str]
) -> dict[str, Any]:
    """Return the places of named arguments, with the places in a `**kwargs` parameter.

    The payload has its arguments beside the named ones. Python lists this parameter last.

    Args:
        below: the places in it; None: all of it is redacted.
        named: the names of the other parameters, which are none of its arguments.
    """
    if below is None:
        return {"[*]": None, **dict.fromkeys(named, NOWHERE), **tree}
    places = {name: place for name, place in below.items() if name not in named}
    return {**tree, **{name: joined(tree.get(name, NOWHERE), places[name]) for name in places}}


def joined(one: Tree | None, other: Tree | None) -> Tree | None:
    """Return the places of both trees."""
    if one is None or other is None:
        return None
    return {**one, **{name: joined(one.get(name, NOWHERE), other[name]) for name in other}}


@lru_cache(maxsize=10_000)
def _rules_of_part(
    paths: tuple[str, ...], part: Part, name: str, names: tuple[str, ...]
) -> Redactor:
    tree = tree_of(paths)
    below: Tree | None = NOWHERE
    for each in {name, name.rpartition("#")[0].rstrip(), name.partition("#")[0].rstrip()}:
        below = joined(below, _below(tree.get(part) or {}, each))
    others = {each: what for each, what in tree.items() if each not in (RETURN, *get_args(Part))}
    return Redactor(names, None if below is None else {**others, **below})


def _below(tree: Tree, name: str) -> Tree | None:
    """Return the places below a name. A dot in it begins a further name of the tree."""
    for each in name.split("."):
        if (below := tree.get(each, NOWHERE)) is None:
            return None
        tree = below
    return tree


def _declared(name: str) -> Declaration[Any, Any] | None:
    try:
        return registry.find(name)
    except Exception:
        logger.exception("The task %s can't be imported", name)
        return None


def positional(task: Declaration[Any, Any]) -> list[str]:
    """Return the names of a task's arguments that a call may give by their position."""
    parameters = _parameters(task.func, task.takes_context)
    return [each.name for each in parameters if each.kind in POSITIONAL]


def _parameters(function: Callable[..., Any], skip_first: bool) -> list[Parameter]:
    return list(signature_of(function).parameters.values())[skip_first:]


def _as_text(text: str | bytes | None) -> str:
    if not text:
        return ""
    return text if isinstance(text, str) else text.decode("utf-8", "replace")
