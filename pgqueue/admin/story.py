"""The steps of a message in order: from its enqueueing to its end, or to its current wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pgqueue.admin.flow_drawing import word_for
from pgqueue.admin.links import to_page, to_row
from pgqueue.admin.steps import wait_in_words
from pgqueue.admin.worker_links import WorkerLinks
from pgqueue.codec.arguments import parse
from pgqueue.conf import settings
from pgqueue.durable.seen import SeenSteps
from pgqueue.engine import flow_graph
from pgqueue.engine.flow_graph import Relative
from pgqueue.exceptions import PGQueueError
from pgqueue.listing import messages
from pgqueue.listing.index import NOT_WHOLE, without
from pgqueue.models import Blocked
from pgqueue.states import Outcome, State
from pgqueue.tasks import redacting
from pgqueue.templatetags.pgqueue_admin import figure
from pgqueue.values.instants import aware, local, of_project

CHILDREN = SHOWN = 20
GOOD, BAD = "good", "bad"
EARLIEST = timedelta(milliseconds=50)
"""The longest time from a message's storage to its due time that counts as no delay."""


@dataclass(frozen=True)
class StoryLine:
    """A line of a timeline.

    Attributes:
        at: the time of the step; None: unknown.
        text: the text as HTML.
        kind: "good", "bad" or "".
        error: the class of an error, its text and its traceback.
        is_open: whether the error is shown at first.
    """

    at: datetime | None
    text: str
    kind: str = ""
    error: tuple[str, str, str] | None = None
    is_open: bool = False


def story(
    request: HttpRequest, message: Any, seen: SeenSteps, workers: WorkerLinks
) -> list[StoryLine]:
    """Return the steps of a message, live or ended, in order.

    Args:
        seen: the steps of its durable task.
        workers: links to the workers of its attempts.
    """
    known = [
        StoryLine(message.created_at, _enqueued(request, message)),
        *_waits(message, seen),
        *_let_go(request, message),
        *_attempts(message, workers),
        *_asked(message),
    ]
    return [*_in_order(known), _now(request, message, seen)]


def _in_order(steps: Sequence[StoryLine]) -> list[StoryLine]:
    """Return steps in the order of their times; a step without a time stays in its place."""
    keys, last = [], aware(steps[0].at) if steps[0].at else datetime.min.replace(tzinfo=UTC)
    for step in steps:
        last = aware(step.at) if step.at else last
        keys.append(last)
    return [steps[number] for number in sorted(range(len(steps)), key=keys.__getitem__)]


def waiting(request: HttpRequest, message: Any) -> list[tuple[str, str]]:
    """Return links to a message's flow, parents and children, by labels."""
    flow_id = message.flow_id
    if flow_id is None:
        return []
    connection = connections[settings().database]
    with without(settings().database, *NOT_WHOLE):
        found = {
            _("Waits for"): flow_graph.parents(connection, flow_id, message.pk, limit=SHOWN + 1),
            _("Is waited for by"): flow_graph.children(connection, message.pk, limit=SHOWN + 1),
        }
    return [
        (_("Flow"), to_row(request, "flow", flow_id, f"#{flow_id}")),
        *((label, _linked(request, rows)) for label, rows in found.items() if rows),
    ]


def _linked(request: HttpRequest, rows: Sequence[Relative]) -> str:
    """Return links to the first messages, each with its state."""
    each = (
        (to_row(request, "message", row.id, f"{row.task} #{row.id}"), word_for(row.word))
        for row in rows[:SHOWN]
    )
    text = format_html_join("", "<div>{}: {}</div>", each)
    return format_html("{}<div>…</div>", text) if len(rows) > SHOWN else text


def children(request: HttpRequest, id: int) -> str:
    """Return links to the messages that this one has enqueued, if found; "": none."""
    return _numbers(request, messages.children(settings().database, id))


def copies(request: HttpRequest, id: int) -> str:
    """Return links to the reruns and forks of a message, if found; "": none."""
    return _numbers(request, messages.copies(settings().database, id))


def _numbers(request: HttpRequest, ids: Sequence[int]) -> str:
    """Return links to the first messages, by their ids."""
    text = format_html_join(
        ", ", "{}", ((to_row(request, "message", pk),) for pk in ids[:CHILDREN])
    )
    return format_html("{} …", text) if len(ids) > CHILDREN else text


def _redacted(metadata: Any) -> Mapping[str, Any]:
    """Return metadata, redacted by the names of its fields, as the page shows it."""
    try:
        text = redacting.fields().redact(redacting.to_text(metadata))
        shown = parse("its metadata", text)
    except (PGQueueError, RecursionError, ValueError):
        # Python writes no number of 5000 digits, and nothing that is nested too deeply.
        return {}
    return shown if isinstance(shown, Mapping) else {}


def _enqueued(request: HttpRequest, message: Any) -> str:
    """Return the producer of a message in words, if known."""
    metadata = _redacted(message.metadata)
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
    if settings().tenant is not None and (tenant := metadata.get("tenant")):
        said.append(format_html(_("in the tenant {}"), tenant))
    acting = metadata.get("acting")
    user = acting.get("user") if isinstance(acting, Mapping) else acting
    if user:
        name = user.get("name", user.get("id")) if isinstance(user, Mapping) else user
        said.append(format_html(_("by {}"), name))
    if original := metadata.get("rerun_of"):
        link = to_row(request, "message", original, f"#{original}")
        said.append(format_html(_("as a rerun of {}"), link))
    if original := metadata.get("forked_from"):
        link = to_row(request, "message", original, f"#{original}")
        if after := metadata.get("forked_after"):
            said.append(format_html(_("as a fork of {} after the step “{}”"), link, after))
        else:
            said.append(format_html(_("as a fork of {}"), link))
    if replayed := metadata.get("replayed_from"):
        said.append(format_html(_("and replayed since: {}"), f"#{replayed}"))
    parts = format_html_join("", ", {}", ((each,) for each in said))
    return format_html("<strong>{}</strong>{}", _("Enqueued"), parts)


def _waits(message: Any, seen: SeenSteps) -> Iterator[StoryLine]:
    state = getattr(message, "state", None)
    if seen.open is not None:
        pass  # it has begun: `_now` says what it waits for
    elif _waits_for_others(message):
        yield StoryLine(message.created_at, _("It waits for other messages of its flow."))
    elif state == State.HELD:
        yield StoryLine(message.created_at, _("Held until it is committed."))
    # After the first attempt, `run_at` is the time of the last retry.
    elif message.attempt == 0 and message.run_at - message.created_at > EARLIEST:
        yield StoryLine(
            message.created_at,
            format_html(_("Delayed until {}"), _local(message.run_at)),
        )
    if message.expires_at:
        yield StoryLine(
            message.created_at,
            format_html(_("It expires at {}"), _local(message.expires_at)),
        )


def _waits_for_others(message: Any) -> bool:
    is_held = getattr(message, "state", None) == State.HELD
    return is_held and message.flow_id is not None and message.lease_until is None


def _let_go(request: HttpRequest, message: Any) -> Iterator[StoryLine]:
    """Yield the end of the last parent."""
    if message.flow_id is None or _waits_for_others(message):
        return
    began = message.started_at or message.claimed_at or getattr(message, "finished_at", None)
    with without(settings().database, *NOT_WHOLE):
        found = flow_graph.last_end(
            connections[settings().database],
            message.flow_id,
            message.pk,
            before=began or timezone.now(),
        )
    if found is not None:
        id, ended_at = found
        text = _("{} ended, the last message that it waited for: it became ready.")
        yield StoryLine(ended_at, format_html(text, to_row(request, "history", id, f"#{id}")))


def _missing(request: HttpRequest, message: Any) -> StoryLine:
    """Return the parents that a message still waits for, and their required states."""
    connection = connections[settings().database]
    with without(settings().database, *NOT_WHOLE):
        missing = flow_graph.missing(connection, message.pk, limit=SHOWN + 1)
        on_failure = flow_graph.on_failure(connection, message.pk)
    if not missing:
        return StoryLine(None, _("All that it waited for has ended: it is made ready soon."))
    links = format_html_join(
        ", ",
        "{} ({})",
        (
            (to_row(request, "message", row.id, f"#{row.id}"), word_for(row.word).lower())
            for row in missing[:SHOWN]
        ),
    )
    more = ", …" if len(missing) > SHOWN else ""
    text = format_html(_("It still waits for {}"), format_html("{}{}", links, more))
    is_dead = any(row.word == State.DEAD for row in missing)
    if is_dead and on_failure == Blocked.OnFailure.WAIT:
        said = _("What is dead has to be replayed, and to succeed, first.")
        return StoryLine(None, format_html("{}. <strong>{}</strong>", text, said), BAD)
    return StoryLine(None, text)


def workers_of(request: HttpRequest, message: Any) -> WorkerLinks:
    """Return links to the workers of a message's attempts."""
    errors = [each for each in message.errors or () if isinstance(each, Mapping)]
    return WorkerLinks(request, [message.worker_id, *(each.get("worker") for each in errors)])


def _attempts(message: Any, workers: WorkerLinks) -> Iterator[StoryLine]:
    """Yield the failed attempts that the queue has kept, and the last attempt."""
    errors = [each for each in message.errors or () if isinstance(each, Mapping)]
    before = 0
    for number, error in enumerate(errors):
        attempt = error.get("attempt")
        if isinstance(attempt, int) and attempt - before > 1 and number:
            missing = attempt - before - 1
            text = ngettext(
                "%d attempt more, whose end is not kept", "%d attempts more, not kept", missing
            )
            yield StoryLine(None, text % missing)
        before = attempt if isinstance(attempt, int) else before
        if before == message.attempt and message.claimed_at:
            yield from _last_attempt(message, workers)
        yield _failed(error, workers, is_open=number == len(errors) - 1)
    if message.lost:
        text = ngettext(
            "%d worker died while it ran it", "%d workers died while they ran it", message.lost
        )
        yield StoryLine(None, text % message.lost, BAD)
    if message.claimed_at and before != message.attempt:
        yield from _last_attempt(message, workers)


def _failed(error: Mapping[str, Any], workers: WorkerLinks, *, is_open: bool) -> StoryLine:
    told = {
        "attempt": error.get("attempt", "?"),
        "worker": workers.to(error.get("worker")),
        "release": error.get("release"),
    }
    if told["release"]:
        text = _("Attempt {attempt} failed on {worker}, in the release {release}")
    else:
        text = _("Attempt {attempt} failed on {worker}")
    name, said, traceback = (str(error.get(each, "")) for each in ("class", "message", "traceback"))
    at = _parsed(error.get("at"))
    return StoryLine(at, format_html(text, **told), BAD, (name, said, traceback or said), is_open)


def _last_attempt(message: Any, workers: WorkerLinks) -> Iterator[StoryLine]:
    """Yield the claim of the last attempt, and its begin."""
    if message.worker_id:
        worker = workers.to(message.worker_id)
        text = format_html(_("Attempt {} was taken by {}"), message.attempt, worker)
    else:  # the message waits, and no worker has it
        text = format_html(_("Attempt {} was taken"), message.attempt)
    yield StoryLine(message.claimed_at, text)
    # If the attempt has not begun, or was handed back, `started_at` is the previous one's begin.
    if message.started_at and message.started_at >= message.claimed_at:
        waited = message.started_at - message.created_at
        began = _("It began, %s after it was enqueued.") % _lasting(waited)
        yield StoryLine(message.started_at, began)


def _asked(message: Any) -> Iterator[StoryLine]:
    if message.cancel_requested_at:
        yield StoryLine(message.cancel_requested_at, _("It was asked to stop."))


def _now(request: HttpRequest, message: Any, seen: SeenSteps) -> StoryLine:
    """Return the step with the outcome of a message, or with its current wait."""
    outcome = getattr(message, "outcome", None)
    if outcome is not None:
        text = format_html("<strong>{}</strong>", Outcome(outcome).label)
        if message.started_at and outcome == Outcome.SUCCEEDED:
            ran = _lasting(message.finished_at - message.started_at)
            text = format_html(
                _("{succeeded} after it had run for {time}"), succeeded=text, time=ran
            )
        return StoryLine(message.finished_at, text, GOOD if outcome == Outcome.SUCCEEDED else "")
    if message.state == State.DEAD:
        return StoryLine(
            None, format_html("<strong>{}</strong>", _("Dead: it waits for a replay.")), BAD
        )
    if message.state in (State.SCHEDULED, State.HELD) and (waits := wait_in_words(seen)):
        return StoryLine(None, format_html("{}.", waits))
    if message.state == State.SCHEDULED:
        due = (
            _("Now it waits for its next attempt, at {}")
            if message.attempt
            else _("It is due at {}")
        )
        return StoryLine(None, format_html(due, _local(message.run_at)))
    if message.state == State.READY:
        lane = to_page(
            "message_key", _("what holds its key back"), channel=message.channel, key=message.key
        )
        return StoryLine(None, format_html(_("Now it waits for a worker: {}"), lane))
    if message.state == State.RUNNING:
        return StoryLine(None, format_html("<strong>{}</strong>", _("It runs now.")), GOOD)
    if _waits_for_others(message):
        return _missing(request, message)
    return StoryLine(None, _("It waits to be committed."))


def _lasting(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 60:
        return _("%s s") % figure(max(seconds, 0.0))
    now = datetime(2000, 1, 1)
    return timesince(now, now + duration)


def _local(moment: datetime) -> str:
    return format_html("<time>{}</time>", date_format(local(moment), "DATETIME_FORMAT"))


def _parsed(text: Any) -> datetime | None:
    try:
        return of_project(parse_datetime(text)) if isinstance(text, str) else None
    except ValueError:
        return None
