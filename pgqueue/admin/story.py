"""What happened to a message, in order: from who enqueued it to its end, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.timesince import timesince
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pgqueue.admin.links import to_page, to_row
from pgqueue.conf import settings
from pgqueue.listing import messages
from pgqueue.states import Outcome, State

CHILDREN = 20
GOOD, BAD = "good", "bad"
EARLIEST = timedelta(milliseconds=50)
"""A message whose time comes so soon after it was stored was not delayed."""


@dataclass(frozen=True)
class Step:
    """A line of a timeline.

    Attributes:
        at: None: nobody knows.
        text: HTML.
        kind: "good", "bad" or "".
        error: the class of an error, its text and its traceback.
        is_open: whether that is shown at once.
    """

    at: datetime | None
    text: str
    kind: str = ""
    error: tuple[str, str, str] | None = None
    is_open: bool = False


def story(request: HttpRequest, message: Any) -> list[Step]:
    """Return the steps of a message, live or ended, the first one first."""
    return [
        Step(message.created_at, _enqueued(request, message)),
        *_waits(message),
        *_attempts(request, message),
        *_asked(message),
        _now(request, message),
    ]


def children(request: HttpRequest, id: int) -> str:
    """Return links to messages that this one has enqueued, as far as they are found; "": none."""
    found = messages.children(settings().database, id)
    text = format_html_join(
        ", ", "{}", ((to_row(request, "message", pk),) for pk in found[:CHILDREN])
    )
    return format_html("{} …", text) if len(found) > CHILDREN else text


def _enqueued(request: HttpRequest, message: Any) -> str:
    """Say who enqueued it, as far as anything is known of that."""
    metadata = message.metadata if isinstance(message.metadata, Mapping) else {}
    said = []
    if message.parent_id is not None:
        link = to_row(request, "message", message.parent_id)
        said.append(format_html(_("by message {}"), link))
    if schedule := metadata.get("schedule"):
        link = to_row(request, "schedule", schedule)
        said.append(format_html(_("by the schedule {}"), link))
        if tick := metadata.get("tick"):
            said.append(format_html(_("for the tick at {}"), tick))
    if subscription := metadata.get("subscription"):
        link = to_row(request, "subscription", subscription)
        said.append(format_html(_("by the subscription {}"), link))
        if position := metadata.get("position"):
            said.append(format_html(_("for the event {}"), to_row(request, "event", position)))
    acting = metadata.get("acting")
    user = acting.get("user") if isinstance(acting, Mapping) else acting
    if user:
        name = user.get("name", user.get("id")) if isinstance(user, Mapping) else user
        said.append(format_html(_("by {}"), name))
    if replayed := metadata.get("replayed_from"):
        said.append(format_html(_("and replayed since: {}"), f"#{replayed}"))
    parts = format_html_join("", ", {}", ((each,) for each in said))
    return format_html("<strong>{}</strong>{}", _("Enqueued"), parts)


def _waits(message: Any) -> Iterator[Step]:
    state = getattr(message, "state", None)
    if state == State.HELD:
        yield Step(message.created_at, _("Held until it is committed."))
    # Later on, `run_at` is the time of the last retry.
    elif message.attempt == 0 and message.run_at - message.created_at > EARLIEST:
        yield Step(
            message.created_at,
            format_html(_("Delayed until {}"), _local(message.run_at)),
        )
    if message.expires_at:
        yield Step(
            message.created_at,
            format_html(_("It expires at {}"), _local(message.expires_at)),
        )


def _attempts(request: HttpRequest, message: Any) -> Iterator[Step]:
    """Yield the attempts that failed, as far as they are kept, and the last one."""
    errors = [each for each in message.errors or () if isinstance(each, Mapping)]
    before = 0
    for number, error in enumerate(errors):
        attempt = error.get("attempt")
        if isinstance(attempt, int) and attempt - before > 1 and number:
            missing = attempt - before - 1
            text = ngettext(
                "%d attempt more, whose end is not kept", "%d attempts more, not kept", missing
            )
            yield Step(None, text % missing)
        before = attempt if isinstance(attempt, int) else before
        if before == message.attempt and message.claimed_at:
            yield from _last_attempt(request, message)
        yield _failed(request, error, is_open=number == len(errors) - 1)
    if message.lost:
        text = ngettext(
            "%d worker died while it ran it", "%d workers died while they ran it", message.lost
        )
        yield Step(None, text % message.lost, BAD)
    if message.claimed_at and before != message.attempt:
        yield from _last_attempt(request, message)


def _failed(request: HttpRequest, error: Mapping[str, Any], *, is_open: bool) -> Step:
    worker = error.get("worker")
    where = to_row(request, "worker", worker) if _is_uuid(worker) else worker or "?"
    told = {"attempt": error.get("attempt", "?"), "worker": where, "release": error.get("release")}
    if told["release"]:
        text = _("Attempt {attempt} failed on {worker}, in the release {release}")
    else:
        text = _("Attempt {attempt} failed on {worker}")
    name, said, traceback = (str(error.get(each, "")) for each in ("class", "message", "traceback"))
    at = _parsed(error.get("at"))
    return Step(at, format_html(text, **told), BAD, (name, said, traceback or said), is_open)


def _last_attempt(request: HttpRequest, message: Any) -> Iterator[Step]:
    """Yield when the last attempt was claimed, and when it began."""
    worker = to_row(request, "worker", message.worker_id) if message.worker_id else "?"
    text = format_html(_("Attempt {} was taken by {}"), message.attempt, worker)
    yield Step(message.claimed_at, text)
    if message.started_at:
        waited = message.started_at - message.created_at
        began = _("It began, %s after it was enqueued.") % _lasting(waited)
        yield Step(message.started_at, began)


def _asked(message: Any) -> Iterator[Step]:
    if message.cancel_requested_at:
        yield Step(message.cancel_requested_at, _("It was asked to stop."))


def _now(request: HttpRequest, message: Any) -> Step:
    """Return how it ended, or what it waits for."""
    outcome = getattr(message, "outcome", None)
    if outcome is not None:
        text = format_html("<strong>{}</strong>", Outcome(outcome).label)
        if message.started_at and outcome == Outcome.SUCCEEDED:
            ran = _lasting(message.finished_at - message.started_at)
            text = format_html(
                _("{succeeded} after it had run for {time}"), succeeded=text, time=ran
            )
        return Step(message.finished_at, text, GOOD if outcome == Outcome.SUCCEEDED else "")
    if message.state == State.DEAD:
        return Step(
            None, format_html("<strong>{}</strong>", _("Dead: it waits for a replay.")), BAD
        )
    if message.state == State.SCHEDULED:
        due = (
            _("Now it waits for its next attempt, at {}")
            if message.attempt
            else _("It is due at {}")
        )
        return Step(None, format_html(due, _local(message.run_at)))
    if message.state == State.READY:
        lane = to_page(
            "message_key", _("what holds its key back"), channel=message.channel, key=message.key
        )
        return Step(None, format_html(_("Now it waits for a worker: {}"), lane))
    if message.state == State.RUNNING:
        return Step(None, format_html("<strong>{}</strong>", _("It runs now.")), GOOD)
    return Step(None, _("It waits to be committed."))


def _is_uuid(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(UUID(text))
    except ValueError:
        return False


def _lasting(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 60:
        return _("%s s") % f"{max(seconds, 0.0):.3g}"
    now = datetime(2000, 1, 1)
    return timesince(now, now + duration)


def _local(moment: datetime) -> str:
    return format_html("<time>{}</time>", date_format(localtime(moment), "DATETIME_FORMAT"))


def _parsed(text: Any) -> datetime | None:
    try:
        return parse_datetime(text) if isinstance(text, str) else None
    except ValueError:
        return None
