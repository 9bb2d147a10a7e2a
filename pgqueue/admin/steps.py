"""The steps of a durable task on the page of its message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from pgqueue.admin.links import to_row
from pgqueue.codec.envelope import is_envelope
from pgqueue.conf import settings
from pgqueue.durable.seen import SeenSteps, ids_of, seen
from pgqueue.engine.steps import SeenSignal, SeenStep, SentSignal
from pgqueue.models import Step
from pgqueue.redaction import Hidden
from pgqueue.tasks import registry
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.instants import local

LIMIT = 200
"""Steps, and signals, that a page shows: the last ones."""
EXCERPT = 4096
"""Characters of a result, or a payload, that a page shows."""
CALLED = 20
"""Messages of one step that a page links to."""
Link = tuple[str, str]
"""An address, and its label."""


@dataclass(frozen=True)
class StepRow:
    """A row of the table of steps.

    Attributes:
        kind, state: in words.
        result: its result as text.
        error: the class and the text of its last error.
        links: the user's operations on it.
    """

    step: SeenStep
    kind: str
    state: str
    result: str
    error: tuple[str, str] | None
    links: Sequence[Link]

    @property
    def is_bad(self) -> bool:
        """Whether it has failed."""
        return self.step.state == Step.State.FAILED


@dataclass(frozen=True)
class SignalRow:
    """A row of the table of signals."""

    signal: SeenSignal
    name: str
    sender: str
    payload: str


@dataclass(frozen=True)
class SentRow:
    """A row of the table of signals to other messages."""

    signal: SentSignal
    receiver: str


@dataclass(frozen=True)
class StepTables:
    """The steps and the signals of a message, for its page."""

    steps: Sequence[StepRow]
    signals: Sequence[SignalRow]
    sent: Sequence[SentRow]
    is_all: bool
    limit: int = LIMIT


def steps_of(message: Any, hidden: Hidden) -> SeenSteps:
    """Return the last steps of a message and the signals to it, redacted.

    Args:
        hidden: hides the redacted values of its columns.
    """
    connection = connections[settings().database]
    return seen(connection, message.pk, message.task, hidden, limit=LIMIT, excerpt=EXCERPT)


def tables(request: HttpRequest, message: Any, found: SeenSteps, *, operates: bool) -> StepTables:
    """Return the tables of a message's page.

    Args:
        operates: whether the user may do what changes the message.
    """
    task = durable_task(message.task)
    model = message._meta.model_name
    rows = [
        StepRow(
            each,
            str(Step.Kind(each.kind).label),
            str(Step.State(each.state).label),
            _result(request, each, is_cut=each.name in found.cut),
            _error(each),
            list(_links(model, message, each)) if operates and task else [],
        )
        for each in found.steps
    ]
    signals = [
        SignalRow(
            each,
            each.name.removeprefix("@"),
            _linked(request, each.sender_id),
            _text(each.payload, is_cut=each.id in found.cut),
        )
        for each in found.signals
    ]
    sent = [SentRow(each, _linked(request, each.message_id)) for each in found.sent]
    return StepTables(rows, signals, sent, found.is_all)


def durable_task(name: str) -> Declaration[Any, Any] | None:
    """Return a durable task of this name; None: none is known here."""
    task = known_task(name)
    return task if task is not None and task.durable else None


def known_task(name: str) -> Declaration[Any, Any] | None:
    """Return the task of this name; None: none is known here, or its module fails."""
    try:
        return registry.find(name) if name else None
    except Exception:
        return None  # the page's redaction has logged the error


def url_of(model: str, pk: Any, verb: str, **query: str) -> str:
    """Return the address of the page for an operation on one message."""
    url = reverse(f"admin:pgqueue_{model}_{verb}", args=[pk])
    return f"{url}?{urlencode(query)}" if query else url


def _links(model: str, message: Any, step: SeenStep) -> Iterator[Link]:
    if step.state == Step.State.DONE:
        yield url_of(model, message.pk, "fork", after=step.name), _("Fork after it …")
    is_over = step.state in (Step.State.DONE, Step.State.FAILED)
    if model == "message" and is_over and step.kind != Step.Kind.VALUE:
        yield url_of(model, message.pk, "again", step=step.name), _("Do it again …")


def _result(request: HttpRequest, step: SeenStep, *, is_cut: bool) -> str:
    if ids := ids_of(step):
        links = format_html_join(", ", "{}", ((_linked(request, id),) for id in ids[:CALLED]))
        return format_html("{} …", links) if len(ids) > CALLED else links
    return _text(step.result, is_cut=is_cut)


def _linked(request: HttpRequest, id: int | None) -> str:
    return to_row(request, "message", id, f"#{id}") if id else ""


def _text(text: str | None, *, is_cut: bool) -> str:
    if text is None:
        return ""
    if is_envelope(text):
        return _("encrypted")
    return f"{text} …" if is_cut else text


def _error(step: SeenStep) -> tuple[str, str] | None:
    try:
        entry = json.loads(step.error or "null")
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    return str(entry.get("class", "")), str(entry.get("message", ""))


def wait_in_words(found: SeenSteps) -> str | None:
    """Return the current wait of a message as HTML; None: none of its steps waits."""
    step = found.open
    if step is None:
        return None
    said = _words(step)
    if step.until is None:
        return said
    if step.kind == Step.Kind.SLEEP or step.state == Step.State.RETRYING:
        return format_html(_("{} until {}"), said, _moment(step.until))
    return format_html(_("{}, until {} at the latest"), said, _moment(step.until))


def _words(step: SeenStep) -> str:
    if step.state == Step.State.RETRYING:
        text = _("The step “{}” is tried again: it waits")
        return format_html(text, step.name)
    if step.kind == Step.Kind.SLEEP:
        return format_html(_("It sleeps (“{}”)"), step.name)
    if step.kind == Step.Kind.SIGNAL:
        names = " | ".join(step.signals or [])
        return format_html(_("It waits for the signal “{}”"), names)
    if step.kind == Step.Kind.EVENT:
        topic = step.name.removeprefix("event:").partition("#")[0]
        return format_html(_("It waits for the event “{}”"), topic)
    return format_html(_("It waits for the messages of the step “{}”"), step.name)


def _moment(moment: datetime) -> str:
    return format_html("<time>{}</time>", date_format(local(moment), "DATETIME_FORMAT"))
