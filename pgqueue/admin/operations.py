"""The operations on messages: confirmed, done in batches, reported and logged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError
from django.db.models import Count, F, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.links import page_url
from pgqueue.database.guard import TransactionLost
from pgqueue.database.savepoints import savepoints
from pgqueue.engine.operate import BATCH, Operated
from pgqueue.models.message import History, MessageQuerySet
from pgqueue.states import State
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

logger = logger_of(__name__)

LOGGED_ONE_BY_ONE = 100


@dataclass(frozen=True, kw_only=True)
class MessageOperation:
    """An operation, and the words for it.

    Args:
        name: The name of the action.
        states: The states of messages that the operation changes.
        otherwise: The text about messages in other states.
        permission: The required permission: "operate" or "purge".
        is_final: Whether the operation is irreversible, so that the user must confirm it.
        warning: A warning that the user must confirm.
    """

    name: str
    run: Callable[[Any], Operated]
    label: StrOrPromise
    done: StrOrPromise
    states: Collection[State]
    otherwise: StrOrPromise
    permission: str = "operate"
    is_final: bool = False
    warning: StrOrPromise = ""

    def is_allowed(self, admin: QueueAdmin, request: HttpRequest) -> bool:
        """Return whether the user of a request may do the operation."""
        return bool(getattr(admin, f"has_{self.permission}_permission")(request))


RUN_NOW = MessageOperation(
    name="run_now",
    run=MessageQuerySet.run_now,
    label=_("Run now"),
    done=_("made ready"),
    states={State.SCHEDULED},
    otherwise=_("not scheduled any more"),
)
CANCEL = MessageOperation(
    name="cancel",
    run=MessageQuerySet.cancel,
    label=_("Cancel"),
    done=_("cancelled"),
    # Only a discard ends a dead letter for good, and it requires the permission to purge.
    states=set(State) - {State.DEAD},
    otherwise=_("had already ended, or are dead"),
    is_final=True,
)
REPLAY = MessageOperation(
    name="replay",
    run=MessageQuerySet.replay,
    label=_("Replay"),
    done=_("replayed"),
    states={State.DEAD},
    otherwise=_("no longer dead"),
)
DISCARD = MessageOperation(
    name="discard",
    run=MessageQuerySet.discard,
    label=_("Discard"),
    done=_("discarded"),
    states={State.DEAD},
    otherwise=_("no longer dead"),
    permission="purge",
    is_final=True,
)
PURGE = MessageOperation(
    name="purge",
    run=MessageQuerySet.discard,
    label=_("Purge"),
    done=_("discarded"),
    states=set(State) - {State.RUNNING},
    otherwise=_("had already ended"),
    permission="purge",
    is_final=True,
)
"""The operation applies to a channel, and not to chosen messages."""
RELEASE = MessageOperation(
    name="release",
    run=MessageQuerySet.release,
    label=pgettext_lazy("take from a worker", "Release"),
    done=_("released"),
    states={State.RUNNING},
    otherwise=_("not running any more"),
    warning=_(
        "A run that goes on is not stopped: it may do its work beside the next one, and its result "
        "counts for nothing."
    ),
)
OPERATIONS = {each.name: each for each in (RUN_NOW, CANCEL, RELEASE, REPLAY, DISCARD)}


def operate(
    admin: QueueAdmin, request: HttpRequest, queryset: QuerySet[Any], operation: MessageOperation
) -> HttpResponse | None:
    """Do an operation on the chosen messages, or first ask the user to confirm it."""
    if "ids" in request.POST:
        _perform(admin, request, admin.clean_ids(request.POST["ids"].split(",")), operation)
        return None
    if request.POST.get("select_across", "0") != "0":
        # The operation is for all messages of the filter, also beyond the list's count.
        query = {**filters_of(admin, request), "action": operation.name}
        return HttpResponseRedirect(page_url("message_bulk", **query))
    # `queryset` lacks messages that have left the list meanwhile, which the report must include.
    ids = admin.clean_ids(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
    if operation.is_final or operation.warning:
        return ask(admin, request, ids, operation)
    _perform(admin, request, ids, operation)
    return None


def user_of(request: HttpRequest) -> dict[str, Any]:
    """Return the id and the name of the user who asks for an operation."""
    pk = request.user.pk
    return {"id": pk if isinstance(pk, int) else str(pk), "name": request.user.get_username()}


def filters_of(admin: QueueAdmin, request: HttpRequest) -> dict[str, str]:
    """Return the filters and the search of a list, without its page, its order and its place."""
    names = {*admin.filter_parameters(request), SEARCH_VAR}
    return {name: request.GET[name] for name in request.GET if name in names}


def ask(
    admin: QueueAdmin, request: HttpRequest, ids: Sequence[int], operation: MessageOperation
) -> TemplateResponse:
    """Ask the user to confirm an operation on messages, live or ended."""
    # The page holds the ids, so that the operation is done on the shown messages. They are in one
    # field, since Django accepts at most a thousand fields.
    chosen = admin.get_queryset(request).filter(pk__in=ids)
    if admin.model is History:
        chosen = chosen.annotate(state=F("outcome"))
    groups = chosen.values("task", "channel", "state").annotate(number=Count("pk"))
    context = {
        **admin.admin_site.each_context(request),
        "title": gettext("%s: are you sure?") % operation.label,
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
    admin: QueueAdmin, request: HttpRequest, ids: Sequence[int], operation: MessageOperation
) -> None:
    """Do an operation batch by batch; report its result, also if it fails halfway."""
    operated, tried = Operated(), 0
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        chosen = admin.get_queryset(request).filter(pk__in=batch)
        names = {message.pk: str(message) for message in chosen.only("task")}
        try:
            # With ATOMIC_REQUESTS, an error must not undo earlier batches.
            with savepoints():
                these = operation.run(chosen)
        except TransactionLost:
            raise
        except (DatabaseError, psycopg.Error):
            logger.exception("%s stopped at %d of %d messages", operation.label, tried, len(ids))
            break
        operated, tried = operated | these, tried + len(batch)
        done, asked = ({id: names.get(id, "") for id in ids} for ids in these[:2])
        _log(request, admin.model, operation.done, done)
        _log(request, admin.model, _("asked to stop"), asked)
    text = report(operation, operated, tried=tried, chosen=len(ids))
    level = messages.SUCCESS if len(operated.done) == len(ids) else messages.WARNING
    admin.message_user(request, text, level if tried == len(ids) else messages.ERROR)


def report(operation: MessageOperation, operated: Operated, *, tried: int, chosen: int) -> str:
    """Return the result of an operation in words."""
    done, asked, busy = (len(ids) for ids in operated)
    otherwise = tried - done - asked - busy
    busy_ids = ", ".join(f"#{id}" for id in sorted(operated.busy)[:10])
    parts = [f"{done} {operation.done}"]
    if asked:
        parts.append(gettext("%s running and asked to stop") % asked)
    if otherwise:
        parts.append(f"{otherwise} {operation.otherwise}")
    if busy:
        parts.append(
            gettext("%(count)s locked by the task that runs, to be tried again (%(ids)s)")
            % {"count": busy, "ids": busy_ids}
        )
    if chosen > tried:
        parts.append(gettext("%s not tried, since the database failed") % (chosen - tried))
    return f"{', '.join(parts)}."


def _log(
    request: HttpRequest, model: type[Model], change: StrOrPromise, names: dict[int, str]
) -> None:
    """Write the change of each message into the log; for many messages, only their number."""
    entries: list[tuple[int | None, str]] = sorted(names.items())
    if len(names) > LOGGED_ONE_BY_ONE:
        number = len(names)
        entries = [(None, ngettext("%d message", "%d messages", number) % number)]
    kind = ContentType.objects.get_for_model(model)
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=request.user.pk,  # type: ignore[misc]
            content_type=kind,
            object_id=id,
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=f"{str(change).capitalize()}.",
        )
        for id, name in entries
    )
