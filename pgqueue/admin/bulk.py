"""Pages that confirm, begin, follow and stop an operation on all messages of a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.filters import as_flow, state_label
from pgqueue.admin.lane import serving
from pgqueue.admin.links import page_url
from pgqueue.admin.operations import OPERATIONS, PURGE, MessageOperation, user_of
from pgqueue.admin.search import direct
from pgqueue.conf import settings
from pgqueue.exceptions import ChannelFull
from pgqueue.listing import index
from pgqueue.listing.index import Listing, without
from pgqueue.listing.messages import everything
from pgqueue.models import History, Message, Operation
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from pgqueue.templatetags.pgqueue_admin import grouped
from pgqueue.values.names import as_key

COUNT_FOR = 0.1
"""The most seconds for which messages are counted."""
GROUPS = 20
SEARCHED, SEARCH = "key", "q"
"""The search term of a list is a key."""
PARAMETERS = tuple(name for name in bulk.NARROWED_BY if name != SEARCHED)
"""The parameters of the list of messages and of an operation's pages, beside the search."""
NEWEST = "newest"


@dataclass(frozen=True)
class CountedMessages:
    """The messages that an operation would change.

    Attributes:
        number: the number of messages that were found.
        is_all: whether no other message exists.
        groups: the numbers by task, channel and state.
    """

    number: int
    is_all: bool
    groups: list[Any]


class BulkAdmin(QueueAdmin):
    """Has pages that confirm and follow an operation on all messages of a filter."""

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("bulk/", wrap(self.bulk_view), name="pgqueue_message_bulk"),
            path("bulk/<int:id>/", wrap(self.progress_view), name="pgqueue_message_bulk_progress"),
            *super().get_urls(),
        ]

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Ask the user to confirm an operation, with a count; or begin it."""
        operation = OPERATIONS.get(request.GET.get("action", ""))
        if operation is None:
            raise Http404
        if not (self.has_view_permission(request) and operation.is_allowed(self, request)):
            raise PermissionDenied
        try:
            chosen = filter_of(request.GET)
        except (ValueError, TypeError, ValidationError) as error:
            raise BadRequest(str(error)) from error
        if request.method == "POST":
            return self._begin(request, operation, chosen)
        context = {
            **self.admin_site.each_context(request),
            "title": operation.label,
            "opts": self.opts,
            "operation": operation,
            "chosen": _shown(chosen),
            "counted": self._count(request, chosen, operation),
            "most": index.STRETCH,
            "newest": bulk.newest(),
            "is_served": bool(serving(bulk.CHANNEL)),
            "channel": bulk.CHANNEL,
            "back": list_url(chosen),
        }
        return TemplateResponse(request, "admin/pgqueue/message/bulk_confirmation.html", context)

    def progress_view(self, request: HttpRequest, id: int) -> HttpResponse:
        """Show the progress of an operation, as a page or as JSON; or stop it.

        A user who has begun it may follow it, too: the user of a flow or a channel may not see its
        messages.
        """
        may_view = self.has_view_permission(request)
        if not (may_view or _has_begun(request, id)):
            raise PermissionDenied
        row = find_operation(id)
        if row is None:
            raise Http404
        arguments = (row.payload or {}).get("args", [])
        operation = {**OPERATIONS, PURGE.name: PURGE}.get(arguments[0] if arguments else "")
        if operation is None:
            raise Http404
        if request.method == "POST":
            if not operation.is_allowed(self, request):
                raise PermissionDenied
            Message.objects.using(settings().database).filter(pk=id).cancel()
            self.log_change(request, row, str(_("Asked to stop.")))
            return HttpResponseRedirect(request.path)
        told = told_of(row, operation)
        if "json" in request.GET:
            return JsonResponse(told)
        if operation is PURGE:
            shown, back = _purged(arguments), page_url("channel_page", name=arguments[2])
        else:
            chosen = bulk.Filter(**arguments[2])
            shown, back = _shown(chosen), list_url(chosen)
        context = {
            **self.admin_site.each_context(request),
            "title": operation.label,
            "opts": self.opts,
            "row": row,
            "told": told,
            "operation": operation,
            "chosen": shown,
            "may_stop": operation.is_allowed(self, request),
            "may_view": may_view,
            "back": back,
        }
        return TemplateResponse(request, "admin/pgqueue/message/bulk_progress.html", context)

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Any:
        """Return the listing of a filter."""
        raise NotImplementedError

    def _begin(
        self, request: HttpRequest, operation: MessageOperation, chosen: bulk.Filter
    ) -> HttpResponse:
        newest = request.POST.get(NEWEST, "")
        if not (newest.isascii() and newest.isdecimal() and len(newest) < 19):
            raise BadRequest(f"{NEWEST}={newest!r}: it must be an id.")
        return begin(request, operation, chosen, newest=int(newest))

    def _count(
        self, request: HttpRequest, chosen: bulk.Filter, operation: MessageOperation
    ) -> CountedMessages:
        """Count messages up to the limits of a page, in the order of an index."""
        given = {name: value for name, value in asdict(chosen).items() if value is not None}
        if chosen.state is None and len(operation.states) == 1:
            # The operation does not change messages in other states.
            given["state"] = next(iter(operation.states)).value
        is_of_lane = (
            chosen.key is not None
            and chosen.channel is not None
            and not given.keys() - {"channel", "key", "task", "flow"}
        )
        if is_of_lane:
            in_channel = self._messages.in_channel(given["channel"]).filter(**chosen.wanted())
            listings = [Listing(rows=in_channel, order=(), wording="")]
        elif chosen.state == State.READY:
            # The list has only the ready messages of free lanes; the operation changes all.
            listings = list(everything(self._messages, chosen.wanted()))
        else:
            listings = [self.get_listing(request, given, "")]
        until = monotonic() + COUNT_FOR
        ids, is_all = list[int](), True
        for listing in listings:
            stretch = listing.stretch()
            while stretch.next and len(stretch.ids) < index.STRETCH and monotonic() < until:
                stretch += listing.stretch(stretch.next)
            ids += stretch.ids
            # No index lists a key's messages of every channel and state.
            is_all = is_all and stretch.is_all and bool(is_of_lane or listing.order)
        rows = self._messages.filter(pk__in=ids[: index.STRETCH])
        # The operation leaves messages in other states unchanged.
        rows = rows.filter(state__in=operation.states)
        groups = rows.values("task", "channel", "state").annotate(number=Count("pk"))
        with without(rows.db, "seqscan"):
            found = list(groups.order_by("-number", "task", "channel", "state"))
        number = sum(group["number"] for group in found)
        return CountedMessages(number, is_all and len(ids) <= index.STRETCH, found[:GROUPS])

    @property
    def _messages(self) -> MessageQuerySet:
        return Message.objects.using(settings().database)


def begin(
    request: HttpRequest, operation: MessageOperation, chosen: bulk.Filter, *, newest: int
) -> HttpResponse:
    """Begin an operation for the user of a request; redirect to the page that follows it.

    If the channel of operations is full, the user is told so, and gets the list of the messages.
    """
    try:
        with transaction.atomic(using=settings().database):
            message = bulk.start(operation.name, chosen, newest=newest, user=user_of(request))
    except ChannelFull as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(list_url(chosen))
    words = ", ".join(f"{name}={value}" for name, value in asdict(chosen).items() if value)
    LogEntry.objects.create(
        user_id=request.user.pk,  # type: ignore[misc]
        content_type=ContentType.objects.get_for_model(Message),
        object_id=message.id,
        object_repr=f"{bulk.operate.name} #{message.id}",
        action_flag=CHANGE,
        change_message=f"{operation.name}: asked for, of all messages up to #{newest} with "
        f"{words or 'anything'}.",
    )
    return HttpResponseRedirect(reverse("admin:pgqueue_message_bulk_progress", args=[message.id]))


def filter_of(query: Mapping[str, str]) -> bulk.Filter:
    """Return the filter that the parameters of a list name.

    Raises:
        ValueError, TypeError, ValidationError: a value is invalid, or operations do not know a
            parameter, so that they would change more messages than the list shows.
    """
    if unknown := sorted(set(query) - {*PARAMETERS, SEARCHED, SEARCH, "action", NEWEST}):
        raise ValueError(f"{unknown[0]}: operations have no such filter.")
    given: dict[str, Any] = {name: value for name in PARAMETERS if (value := query.get(name, ""))}
    if "flow" in given:
        given["flow"] = as_flow(given["flow"])
    if "key" in query:
        given["key"] = query["key"]
    elif term := as_key(query.get(SEARCH, "").strip()):
        rows = Message.objects.using(settings().database)
        if direct(rows, term) is not None:
            raise ValueError(f"{term!r} is the id or the dedupe key of a message: choose it there.")
        given["key"] = term
    return bulk.Filter(**given)


def list_url(chosen: bulk.Filter) -> str:
    """Return the address of the list with a filter."""
    query = {name: value for name in PARAMETERS if (value := getattr(chosen, name))}
    if chosen.key:
        query[SEARCH] = chosen.key
    return f"{reverse('admin:pgqueue_message_changelist')}?{urlencode(query)}"


def bulk_url(operation: str, **given: str) -> str:
    """Return the address of the page that confirms an operation."""
    query = {"action": operation, **given}
    return f"{reverse('admin:pgqueue_message_bulk')}?{urlencode(query)}"


def _shown(chosen: bulk.Filter) -> list[tuple[str, str]]:
    """Return the labels and values of a filter."""
    labels = {
        "state": _("State"),
        "channel": _("Channel"),
        "task": _("Task"),
        "key": _("Key"),
        "error": _("Class of the last error"),
        "flow": _("Flow"),
        "waits": _("Waits for"),
        "match": _("Content"),
    }
    given = asdict(chosen)
    if chosen.state is not None:
        given["state"] = state_label(chosen.state)
    return [(labels[name], given[name]) for name in labels if given[name] is not None]


def _purged(arguments: list[Any]) -> list[tuple[str, Any]]:
    """Return the labels and values of a purge."""
    _operation, _newest, channel, states, older_than, keep = arguments
    given = {
        _("Channel"): channel,
        _("State"): ", ".join(str(State(state).label) for state in states),
        _("Older than"): None if older_than is None else timedelta(seconds=older_than),
        _("Keep the newest"): keep,
    }
    return [(label, value) for label, value in given.items() if value is not None]


def _has_begun(request: HttpRequest, id: int) -> bool:
    """Return whether the user of a request has asked for an operation."""
    rows = Operation.objects.using(settings().database)
    return rows.filter(pk=id, user__id=user_of(request)["id"]).exists()


def find_operation(id: int) -> Any:
    """Return the message of an operation, live or ended; None: it does not exist."""
    for model in (Message, History):
        rows = model._default_manager.using(settings().database)
        row = rows.filter(pk=id, task__in=bulk.TASKS).first()
        if row is not None:
            return row
    return None


def told_of(row: Any, operation: MessageOperation) -> dict[str, Any]:
    """Return the data of an operation's page, for its first view and its updates."""
    given = row.progress or {"newest": row.payload["args"][1]}
    progress = bulk.OperationProgress(**given)
    state = getattr(row, "outcome", None) or row.state
    is_over = state == State.DEAD or state in Outcome.values
    return {
        "state": state,
        "said": str(_said(state, row)),
        "percent": round(100 * progress.share, 1),
        "done": progress.done,
        "counts": _counts(progress, operation),
        "is_over": is_over,
    }


def _said(state: str, row: Any) -> str:
    if state == State.RUNNING and row.cancel_requested_at:
        return _("It was asked to stop, and will after the batch that it is at.")
    words = {
        State.READY: _("It waits for a worker."),
        State.SCHEDULED: _("It has failed, and is tried again soon; it goes on from there."),
        State.RUNNING: _("It goes on, whether or not this page is open."),
        State.DEAD: _("It has failed too often. Replay it, and it goes on from there."),
        Outcome.SUCCEEDED: _("It has ended."),
        Outcome.CANCELLED: _("It was stopped."),
    }
    return words.get(state, state)  # type: ignore[call-overload,no-any-return]


def _counts(progress: bulk.OperationProgress, operation: MessageOperation) -> str:
    parts = [_("%(count)s %(done)s") % {"count": grouped(progress.done), "done": operation.done}]
    if progress.asked:
        parts.append(_("%s running and asked to stop") % grouped(progress.asked))
    if progress.busy:
        ids = ", ".join(f"#{id}" for id in progress.busy_ids)
        parts.append(
            _("%(count)s locked by the task that runs, and left as they were (%(ids)s)")
            % {"count": grouped(progress.busy), "ids": ids}
        )
    return ", ".join(parts)
