from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.views.main import PAGE_VAR
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from pgqueue.admin import reruns
from pgqueue.admin.base import moment_of
from pgqueue.admin.changelist import BoundedChangeList
from pgqueue.admin.display import ShownMessageAdmin, excerpt_of
from pgqueue.admin.filters import (
    ChannelFilter,
    DayFilter,
    ErrorFilter,
    FlowFilter,
    MatchFilter,
    OutcomeFilter,
    TaskFilter,
    ended_on,
    with_flow,
)
from pgqueue.admin.search import direct
from pgqueue.admin.tabs import ListTab, of_history
from pgqueue.listing.index import NEWEST_FIRST, Listing
from pgqueue.listing.messages import ended_of_flow
from pgqueue.models import History, Message
from pgqueue.operating import bulk

LOGGED = 100
"""The entries of the log that a page shows, as Django's pages do."""


@admin.register(History)
class HistoryAdmin(ShownMessageAdmin):
    """The messages that have ended.

    They are in the order of their ids: each day's partition has an index on the id, and none on
    the time of the end.
    """

    json_columns = (*ShownMessageAdmin.json_columns, "result")
    hidden_columns = ("steps",)
    # Its key has the time of the end: a sequence that was set back gives ids again.
    newest_first = ("-finished_at",)
    actions = ("rerun",)
    list_display = (
        *("id", "shown_state", "task_line", "channel", "key_line"),
        *("finished_at_line", "failures", "last_error_line"),
    )
    list_filter = (
        *(DayFilter, OutcomeFilter, ChannelFilter, TaskFilter, ErrorFilter),
        *(FlowFilter, MatchFilter),
    )
    search_help_text = _(
        "An id, a key, a task, or args.order_id=7, meta.tenant=a, tag=import, error=…"
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "id",
                    "task",
                    "channel",
                    "key",
                    "shown_state",
                    "finished_at",
                    "result_text",
                    "last_error",
                )
            },
        ),
        (_("Content"), {"fields": ShownMessageAdmin.content}),
        (_("Runs"), {"fields": ShownMessageAdmin.runs}),
        (_("Order"), {"fields": ShownMessageAdmin.order}),
    )
    readonly_fields = (*ShownMessageAdmin.readonly_fields, "result_text")

    result_text = excerpt_of("result", _("result"))
    finished_at_line = moment_of("finished_at", _("finished at"))

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.may_operate(request)

    def history_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        """Show the log of a message: the entries from before its end, too."""
        response = super().history_view(request, object_id, *args, **kwargs)
        # Django has already checked that the user may see the message.
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            kinds = ContentType.objects.get_for_models(Message, History).values()
            entries = LogEntry.objects.filter(
                object_id=response.context_data["object"].pk, content_type__in=kinds
            )
            in_order = entries.select_related("user").order_by("action_time", "pk")
            paginator = self.get_paginator(request, in_order, LOGGED)
            page = paginator.get_page(request.GET.get(PAGE_VAR, 1))
            response.context_data |= {
                "action_list": page,
                "page_range": paginator.get_elided_page_range(page.number),
                "pagination_required": paginator.num_pages > 1,
            }
        return response

    @admin.action(permissions=["operate"], description=_("Enqueue once more"))
    def rerun(self, request: HttpRequest, queryset: QuerySet[History]) -> HttpResponse | None:
        return reruns.rerun(self, request, queryset)

    def get_tabs(self, request: HttpRequest, shown: BoundedChangeList) -> list[ListTab]:
        return of_history(request, shown)

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Listing:
        rows, wanted = self.get_queryset(request), bulk.wanted(with_flow(chosen))
        if day := wanted.pop("day", None):
            rows = rows.filter(ended_on(day))
        if (found := direct(rows, term)) is not None:
            return replace(found, sought=wanted)
        if term:
            wanted["key"] = term
        if "flow_id" in wanted:
            return ended_of_flow(rows, wanted)
        return NEWEST_FIRST.listing(rows, wanted)
