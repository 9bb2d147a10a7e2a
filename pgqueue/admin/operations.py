"""What operators do to messages: asked about, done in batches, reported and logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from pgqueue.admin.base import QueueAdmin
from pgqueue.engine.operate import BATCH, Operated
from pgqueue.models.message import Message, MessageQuerySet
from pgqueue.savepoints import TransactionLost, savepoints
from pgqueue.states import State

logger = logging.getLogger(__name__)

LOGGED_ONE_BY_ONE = 100


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation, and the words for it.

    Args:
        name: of the action.
        states: in which a message it does something to is.
        otherwise: what is said of those that were in none of them.
        is_final: whether nothing brings them back, so that it is asked about first.
    """

    name: str
    run: Callable[[Any], Operated]
    label: str
    done: str
    states: Collection[State]
    otherwise: str
    is_final: bool = False


RUN_NOW = Operation(
    name="run_now",
    run=MessageQuerySet.run_now,
    label="Run now",
    done="made ready",
    states={State.SCHEDULED},
    otherwise="not scheduled any more",
)
CANCEL = Operation(
    name="cancel",
    run=MessageQuerySet.cancel,
    label="Cancel",
    done="cancelled",
    states=set(State),
    otherwise="had already ended",
    is_final=True,
)
REPLAY = Operation(
    name="replay",
    run=MessageQuerySet.replay,
    label="Replay",
    done="replayed",
    states={State.DEAD},
    otherwise="no longer dead",
)
DISCARD = Operation(
    name="discard",
    run=MessageQuerySet.discard,
    label="Discard",
    done="discarded",
    states={State.DEAD},
    otherwise="no longer dead",
    is_final=True,
)


def operate(
    admin: QueueAdmin, request: HttpRequest, queryset: QuerySet[Any], operation: Operation
) -> TemplateResponse | None:
    """Do it to what was chosen, or first ask whether that is meant."""
    if "ids" in request.POST:
        _perform(admin, request, admin.clean_ids(request.POST["ids"].split(",")), operation)
        return None
    across = request.POST.get("select_across", "0") != "0"
    if across:
        ids = list(queryset.values_list("pk", flat=True))
    else:
        # Not from `queryset`: what left the list meanwhile is to be reported.
        ids = admin.clean_ids(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
    if across or operation.is_final:
        return _ask(admin, request, ids, operation)
    _perform(admin, request, ids, operation)
    return None


def _ask(
    admin: QueueAdmin, request: HttpRequest, ids: Sequence[int], operation: Operation
) -> TemplateResponse:
    # The page holds the ids, so that what is seen on it is what is done. In one field:
    # Django takes no more than a thousand.
    chosen = admin.get_queryset(request).filter(pk__in=ids)
    groups = chosen.values("task", "channel", "state").annotate(number=Count("pk"))
    context = {
        **admin.admin_site.each_context(request),
        "title": f"{operation.label}: are you sure?",
        "opts": admin.opts,
        "operation": operation,
        "number": len(ids),
        "groups": groups.order_by("-number", "task", "channel", "state")[:20],
        "ids": ",".join(map(str, ids)),
        "any_id": next(iter(ids), ""),
        "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
    }
    return TemplateResponse(request, "admin/pgqueue/message/operation_confirmation.html", context)


def _perform(
    admin: QueueAdmin, request: HttpRequest, ids: Sequence[int], operation: Operation
) -> None:
    """Do it batch by batch, and say what came of it even where it could not go on."""
    operated, tried = Operated(), 0
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        chosen = admin.get_queryset(request).filter(pk__in=batch)
        names = {message.pk: str(message) for message in chosen.only("task")}
        try:
            # With ATOMIC_REQUESTS, an error must not undo the batches before it.
            with savepoints():
                these = operation.run(chosen)
        except TransactionLost:
            raise
        except (DatabaseError, psycopg.Error):
            logger.exception("%s stopped at %d of %d messages", operation.label, tried, len(ids))
            break
        operated, tried = operated | these, tried + len(batch)
        _log(request, operation.done, {id: names.get(id, "") for id in these.done})
        _log(request, "asked to stop", {id: names.get(id, "") for id in these.asked})
    text = _report(operation, operated, tried=tried, chosen=len(ids))
    level = messages.SUCCESS if len(operated.done) == len(ids) else messages.WARNING
    admin.message_user(request, text, level if tried == len(ids) else messages.ERROR)


def _report(operation: Operation, operated: Operated, *, tried: int, chosen: int) -> str:
    done, asked, busy = (len(ids) for ids in operated)
    otherwise = tried - done - asked - busy
    busy_ids = ", ".join(f"#{id}" for id in sorted(operated.busy)[:10])
    parts = [f"{done} {operation.done}"]
    if asked:
        parts.append(f"{asked} running and asked to stop")
    if otherwise:
        parts.append(f"{otherwise} {operation.otherwise}")
    if busy:
        parts.append(f"{busy} locked by the task that runs, to be tried again ({busy_ids})")
    if chosen > tried:
        parts.append(f"{chosen - tried} not tried, since the database failed")
    return f"{', '.join(parts)}."


def _log(request: HttpRequest, change: str, names: dict[int, str]) -> None:
    """Write what happened to each message, or, of very many, how many they were."""
    entries: list[tuple[int | None, str]] = sorted(names.items())
    if len(names) > LOGGED_ONE_BY_ONE:
        entries = [(None, f"{len(names)} messages")]
    kind = ContentType.objects.get_for_model(Message)
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=request.user.pk,  # type: ignore[misc]
            content_type=kind,
            object_id=id,
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=f"{change.capitalize()}.",
        )
        for id, name in entries
    )
