from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import moment_of
from pgqueue.admin.bulk import PARAMETERS, BulkAdmin, bulk_url, filter_of
from pgqueue.admin.changelist import BoundedChangeList
from pgqueue.admin.display import ShownMessageAdmin
from pgqueue.admin.durable import VERBS
from pgqueue.admin.filters import (
    ChannelFilter,
    Choice,
    ErrorFilter,
    FlowFilter,
    MatchFilter,
    StateFilter,
    TaskFilter,
    WaitsFilter,
    with_flow,
)
from pgqueue.admin.lane import KeyState
from pgqueue.admin.links import page_url, to_page, to_row, with_urls
from pgqueue.admin.log_lines import section
from pgqueue.admin.operations import (
    CANCEL,
    DISCARD,
    OPERATIONS,
    RELEASE,
    REPLAY,
    RUN_NOW,
    MessageOperation,
    filters_of,
    operate,
)
from pgqueue.admin.preview import in_words
from pgqueue.admin.search import direct
from pgqueue.admin.tabs import ListTab, of_messages
from pgqueue.conf import settings
from pgqueue.engine.lookup import id_of
from pgqueue.listing import waits
from pgqueue.listing.index import NEWEST_FIRST, Listing
from pgqueue.listing.messages import INDEXES, by_contents, newest_first, of_key
from pgqueue.models import History, Message
from pgqueue.operating import bulk
from pgqueue.states import State
from pgqueue.values.names import as_channel, as_key

LIST_FILTERS: dict[str, type[Choice]] = {
    each.parameter_name: each
    for each in (
        *(StateFilter, ChannelFilter, TaskFilter, ErrorFilter, FlowFilter, WaitsFilter),
        MatchFilter,
    )
}


@admin.register(Message)
class MessageAdmin(BulkAdmin, ShownMessageAdmin):
    """The live messages, and the operations on them."""

    verbs = VERBS
    actions = ("run_now", "cancel", "release", "replay", "discard")
    list_display = (
        *("id", "shown_state", "task_line", "channel", "key_line"),
        *("run_at_line", "failures", "last_error_line"),
    )
    list_filter = tuple(LIST_FILTERS[name] for name in PARAMETERS)
    search_help_text = _(
        "An id, a key, a dedupe key, a task, or args.order_id=7, meta.tenant=a, tag=import, error=…"
    )
    fieldsets = (
        (None, {"fields": ("id", "task", "channel", "key", "shown_state", "last_error")}),
        (_("Content"), {"fields": ShownMessageAdmin.content}),
        (_("Runs"), {"fields": (*ShownMessageAdmin.runs, "lease_until")}),
        (_("Order"), {"fields": (*ShownMessageAdmin.order, "governed")}),
    )

    run_at_line = moment_of("run_at", _("run at"))

    def get_tabs(self, request: HttpRequest, shown: BoundedChangeList) -> list[ListTab]:
        return of_messages(request, shown)

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Listing:
        rows: QuerySet[Message] = self.get_queryset(request)
        state, wanted = chosen.get("state", ""), bulk.wanted(with_flow(chosen))
        if (found := direct(rows, term)) is not None:
            return replace(found, sought=wanted)
        if term:
            wanted["key"] = term
        if "waits" in chosen:
            return waits.listing(
                rows, chosen["waits"], {k: v for k, v in wanted.items() if k != "id"}
            )
        if "flow_id" in wanted:
            return newest_first(rows, wanted)
        if (found := by_contents(rows, wanted)) is not None:
            return found
        # No index has an error, or the contents: the listing looks for them row by row.
        if "key" in wanted and not state and not {"error", "match"} & chosen.keys():
            return of_key(rows, wanted)
        return INDEXES.get(state, NEWEST_FIRST).listing(rows, wanted)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.operate_message")

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.purge_message")

    @admin.action(permissions=["operate"], description=_("Run now: don't wait until they are due"))
    def run_now(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return operate(self, request, queryset, RUN_NOW)

    @admin.action(permissions=["operate"], description=_("Cancel"))
    def cancel(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return operate(self, request, queryset, CANCEL)

    @admin.action(
        permissions=["operate"], description=_("Release running ones: take them from their workers")
    )
    def release(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return operate(self, request, queryset, RELEASE)

    @admin.action(permissions=["operate"], description=_("Replay dead ones"))
    def replay(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return operate(self, request, queryset, REPLAY)

    @admin.action(permissions=["purge"], description=_("Discard dead ones"))
    def discard(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return operate(self, request, queryset, DISCARD)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context:
            context["bulk_links"] = self._bulk_links(request)
        return response

    def _bulk_links(self, request: HttpRequest) -> list[tuple[MessageOperation, str]]:
        """Return the operations that apply to the messages of the list's filters.

        The list is empty where operations do not know a filter, such as a filter of the project.
        """
        query = filters_of(self, request)
        try:
            filter_of(query)
        except (ValueError, TypeError, ValidationError):
            return []
        state = query.get("state")
        state = State.READY if state == bulk.GOVERNED else state
        return [
            (operation, bulk_url(operation.name, **query))
            for operation in OPERATIONS.values()
            if operation.is_allowed(self, request) and (not state or state in operation.states)
        ]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.key_view)
        return [path("key/", view, name="pgqueue_message_key"), *super().get_urls()]

    def key_view(self, request: HttpRequest) -> HttpResponse:
        """Show one key of a channel, and the reasons that hold its messages back."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            name, key = (
                as_channel(request.GET.get("channel", "")),
                as_key(request.GET.get("key", "")),
            )
        except ValueError as error:
            raise BadRequest(str(error)) from error
        seen = KeyState.of(name, key)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Key “%(key)s” of the channel “%(channel)s”") % {"key": key, "channel": name}
            if key
            else _("Messages without a key of the channel “%s”") % name,
            "opts": self.opts,
            "back": page_url("message_changelist", channel=name, q=key),
            "seen": seen,
            "reasons": seen.why(request),
            "tables": [(caption, with_urls(rows)) for caption, rows in seen.tables()],
            "channel_url": page_url("channel_page", name=name),
            "policies": _policies(request, seen),
            "links": self._key_links(request, name, key),
        }
        return TemplateResponse(request, "admin/pgqueue/message/key.html", context)

    def _key_links(self, request: HttpRequest, name: str, key: str) -> list[str]:
        """Return links to the operations on all messages of a key that the user may start."""
        links = [
            to_page(
                "message_bulk",
                _("%s all …") % operation.label,
                action=operation.name,
                channel=name,
                key=key,
            )
            for operation in OPERATIONS.values()
            if operation.is_allowed(self, request)
        ]
        if key and request.user.has_perm("pgqueue.add_policy"):
            given = {"channel": name, "scope": "key", "key": key}
            links.append(to_page("policy_add", _("Limit this key …"), **given))
        return links

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        allowed, state = self.get_actions(request), context["original"].state
        context["operations"] = [
            operation
            for operation in OPERATIONS.values()
            if operation.name in allowed and state in operation.states
        ]
        return super().render_change_form(request, context, *args, **kwargs)

    def gone(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not _has_ended(object_id):
            raise Http404
        self.message_user(request, _("Nothing was done: it has ended."), messages.WARNING)
        return _to_history(object_id)

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # A link to a message stays valid after its end.
        if (ended := self._ended(request, object_id)) is not None:
            return ended
        if "json" in request.GET and request.method == "GET":
            return self._news(request, object_id)
        try:
            return super().change_view(request, object_id, *args, **kwargs)
        except Message.DoesNotExist:
            # The message has ended while its page was made.
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)

    def history_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        if self.has_view_permission(request) and _has_ended(object_id):
            return _to_history(object_id, "history")
        return super().history_view(request, object_id, *args, **kwargs)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        try:
            return super().get_object(request, object_id, from_field)
        except Message.DoesNotExist:
            return None  # it has ended between two reads

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        if (ended := self._ended(request, object_id)) is not None:
            return ended
        answer: HttpResponse = super()._get_obj_does_not_exist_redirect(  # type: ignore[misc]
            request, opts, object_id
        )
        return answer

    def _ended(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        """Return the answer for a message that has ended; None: it lives, or does not exist."""
        if not (self.has_view_permission(request) and _has_ended(object_id)):
            return None
        if "json" in request.GET:
            return JsonResponse({"sections": {}, "is_over": True})
        return _to_history(object_id)

    def _news(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the progress and the log lines as JSON, for the page while it is open."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if (message := self.get_object(request, object_id)) is None:
            if (ended := self._ended(request, object_id)) is not None:
                return ended
            raise Http404
        sections = {
            "progress": self.progress_section(message),
            "progress_text": self.progress_json(message),
            "logs": section(message.log_lines),
        }
        return JsonResponse({"sections": sections, "is_over": message.state == State.DEAD})


def _to_history(object_id: str, page: str = "change") -> HttpResponse:
    return HttpResponseRedirect(reverse(f"admin:pgqueue_history_{page}", args=[object_id]))


def _has_ended(object_id: str) -> bool:
    if (id := id_of(object_id)) is None:
        return False
    return History.objects.using(settings().database).filter(pk=id).exists()


def _policies(request: HttpRequest, seen: KeyState) -> list[tuple[str, str]]:
    shown = {_("Limits of the key"): seen.policy, _("Limits of the channel"): seen.of_channel}
    return [
        (str(label), to_row(request, "policy", policy.pk, in_words(policy)))
        for label, policy in shown.items()
        if policy is not None
    ]
