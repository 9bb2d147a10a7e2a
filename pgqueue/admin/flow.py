"""The flows: a list of them, and a page that draws one and operates it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from pgqueue.admin.base import moment_of
from pgqueue.admin.bulk import begin, bulk_url
from pgqueue.admin.changelist import BoundedChangeList, ListedAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.admin.filters import Choice
from pgqueue.admin.flow_drawing import draw, in_order, lasting, word_for
from pgqueue.admin.lane import serving
from pgqueue.admin.links import page_url, to_page, to_row
from pgqueue.admin.live import words as live_words
from pgqueue.admin.operations import CANCEL, DISCARD, REPLAY, MessageOperation, report
from pgqueue.conf import settings
from pgqueue.engine import flow_graph, flows
from pgqueue.engine.flow_graph import Graph
from pgqueue.engine.lookup import id_of
from pgqueue.engine.operate import BATCH
from pgqueue.listing import index
from pgqueue.listing.flows import ENDED, LIVING, by_state
from pgqueue.listing.index import NOT_WHOLE, Comparison, Listing, without
from pgqueue.models import Flow, Message
from pgqueue.operating import bulk
from pgqueue.states import Outcome, State
from pgqueue.tasks.flows import get_flow
from pgqueue.templatetags.pgqueue_admin import duration, grouped
from pgqueue.values.instants import local

COUNTED = 1000
"""The most live messages, and the most ended ones, that the list counts for each flow."""
STEPS = 50
"""The most messages of the critical path that the page names: the last ones."""
MOVING = (State.RUNNING, State.READY, State.SCHEDULED)
ACTIONS = {"cancel": CANCEL, "retry": REPLAY}
SECTIONS = ("state", "graph", "tables")
"""The sections of the page that are updated while it is open; each has its own template."""


class FlowStateFilter(Choice):
    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(LIVING, _("It goes on, or waits")), (ENDED, _("Ended"))]


class FlowChangeList(BoundedChangeList):
    """Counts the messages only for the flows of a page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        alias = self.root_queryset.db
        with without(alias, *NOT_WHOLE):
            ids = [flow.pk for flow in self.result_list]
            found = flows.progress(connections[alias], ids, bound=COUNTED)
            # The first ones may all be dead, and a later one may run.
            large = [
                id for id, words in found.items() if _live(words) >= COUNTED and not _moves(words)
            ]
            further = flows.progress(connections[alias], large, bound=index.REACH)
        for flow in self.result_list:
            flow.words = found[flow.pk]
            flow.further_words = further.get(flow.pk, flow.words)


@admin.register(Flow)
class FlowAdmin(ListedAdmin):
    """The flows, and the operations on them."""

    list_display = ("id", "name", "state", "progress", "created_at_line", "ended_at_line")
    list_display_links = ("id", "name")
    list_filter = (FlowStateFilter,)
    list_per_page = 20
    search_help_text = gettext_lazy("An id, or a part of a name")
    created_at_line = moment_of("created_at", gettext_lazy("created at"))
    ended_at_line = moment_of("ended_at", gettext_lazy("ended at"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[FlowChangeList]:
        return FlowChangeList

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Listing:
        rows, wanted = self.get_queryset(request), dict[str, Any]()
        if (id := id_of(term)) and rows.filter(pk=id).exists():
            return Listing(rows=rows.filter(pk=id), order=("id",), wording=_("By its id"))
        if term:
            wanted["name"] = Comparison("strpos(lower({}), lower(%s)) > 0", term)
        return by_state(rows, wanted, chosen.get("state"))

    @admin.display(description=gettext_lazy("state"))
    def state(self, flow: Any) -> str:
        words = flow.further_words
        return state_of(flow, words, is_all=_live(words) < index.REACH)[0]

    @admin.display(description=gettext_lazy("messages"))
    def progress(self, flow: Any) -> str:
        counted = in_order(flow.words)
        live = _live(flow.words)
        ended = sum(flow.words.values()) - live
        return (
            ", ".join(
                f"{grouped(count)}{'+' if more >= COUNTED else ''} {word_for(word).lower()}"
                for word, count in counted
                for more in [ended if word in Outcome.values else live]
            )
            or NOTHING
        )

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.operate_message")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.operate_view)
        operate = path("<path:object_id>/operate/", view, name="pgqueue_flow_operate")
        return [operate, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Show a flow; or return the changed sections of its page as JSON."""
        flow = self._find(request, object_id)
        if flow is None:
            return super().change_view(request, object_id, *args, **kwargs)
        if request.method == "POST":
            raise PermissionDenied
        sections = self._sections(request, flow)
        if "json" in request.GET:
            return JsonResponse({"sections": sections, "is_over": flow.ended_at is not None})
        context = {
            **self.admin_site.each_context(request),
            "title": _("Flow “%(name)s” #%(id)s") % {"name": flow.name, "id": flow.pk},
            "opts": self.opts,
            "original": flow,
            "back": page_url("flow_changelist"),
            "sections": sections,
            "live": {"url": "?json=1", "words": live_words()},
            "links": self._links(request, flow),
        }
        return TemplateResponse(request, "admin/pgqueue/flow/page.html", context)

    def operate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask the user to confirm an operation, with a count; or do it."""
        flow, name = self._find(request, object_id), request.GET.get("action", "")
        operation = ACTIONS.get(name)
        if flow is None or operation is None:
            raise Http404
        if not self.has_operate_permission(request):
            raise PermissionDenied
        with without(settings().database, *NOT_WHOLE):
            found = flows.progress(connections[settings().database], [flow.pk], bound=BATCH)
        live = {word: n for word, n in found[flow.pk].items() if word not in Outcome.values}
        is_large = sum(live.values()) >= BATCH
        if request.method == "POST":
            if is_large:
                return self._begin(request, flow, operation)
            return self._operate(request, flow, operation)
        number = live.get(State.DEAD, 0)
        if operation is not REPLAY:
            rows = Message.objects.using(settings().database).to_cancel()
            number = sum(live.values()) - live.get(State.DEAD, 0)
            number -= rows.filter(pk=flow.handler_id).count()
        context = {
            **self.admin_site.each_context(request),
            "title": _("Replay its dead messages") if operation is REPLAY else _("Cancel"),
            "opts": self.opts,
            "flow": flow,
            "operation": operation,
            "number": number,
            "is_large": is_large,
            "is_served": bool(serving(bulk.CHANNEL)),
            "channel": bulk.CHANNEL,
            "page": _page_of(flow),
            "back": page_url("flow_changelist"),
        }
        return TemplateResponse(request, "admin/pgqueue/flow/operation.html", context)

    def _operate(
        self, request: HttpRequest, flow: Flow, operation: MessageOperation
    ) -> HttpResponse:
        found = get_flow(flow.pk, database=settings().database)
        operated = found.retry() if operation is REPLAY else found.cancel()
        number = sum(map(len, operated))
        text = report(operation, operated, tried=number, chosen=number)
        self.log_change(request, flow, text)
        self.message_user(request, text)
        return HttpResponseRedirect(_page_of(flow))

    def _begin(self, request: HttpRequest, flow: Flow, operation: MessageOperation) -> HttpResponse:
        state = State.DEAD.value if operation is REPLAY else None
        chosen = bulk.Filter(flow=flow.pk, state=state)
        self.log_change(request, flow, _("%s: asked for.") % operation.label)
        return begin(request, operation, chosen, newest=bulk.newest())

    def _find(self, request: HttpRequest, object_id: str) -> Any:
        """Return a flow; None: the flow does not exist.

        Raises:
            PermissionDenied: the user may not see it.
        """
        flow = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, flow):
            raise PermissionDenied
        return flow

    def _sections(self, request: HttpRequest, flow: Flow) -> dict[str, str]:
        alias = settings().database
        with without(alias, *NOT_WHOLE):
            graph = flow_graph.graph_of(connections[alias], flow.pk)
        said, is_stuck = state_of(flow, graph.words)
        shown = {
            "flow": flow,
            "graph": graph,
            "drawing": draw(request, flow.pk, graph),
            "said": said,
            "is_stuck": is_stuck,
            "operations": self._operations(request, flow, graph.words),
            "facts": _facts(request, flow, graph),
            "steps": _steps(request, graph),
            "is_cut": len(graph.steps) > STEPS,
            "limit": STEPS,
        }
        return {
            name: render_to_string(f"admin/pgqueue/flow/{name}.html", shown) for name in SECTIONS
        }

    def _operations(
        self, request: HttpRequest, flow: Flow, words: Mapping[str, int]
    ) -> list[tuple[str, str]]:
        """Return the operations that the user may do, as addresses and labels."""
        url = reverse("admin:pgqueue_flow_operate", args=[flow.pk])
        operations, dead, operates = [], words.get(State.DEAD, 0), self.has_operate_permission
        if dead and operates(request):
            operations.append((f"{url}?action=retry", _("Replay its dead messages …")))
        if _live(words) > dead and operates(request):
            operations.append((f"{url}?action=cancel", _("Cancel it …")))
        if dead and request.user.has_perms(["pgqueue.view_message", "pgqueue.purge_message"]):
            discard = bulk_url(DISCARD.name, flow=str(flow.pk), state=State.DEAD.value)
            operations.append((discard, _("Discard its dead messages …")))
        return operations

    def _links(self, request: HttpRequest, flow: Flow) -> list[str]:
        links = []
        if request.user.has_perm("pgqueue.view_message"):
            label = _("Its messages that have not ended")
            links.append(to_page("message_changelist", label, flow=flow.pk))
        if request.user.has_perm("pgqueue.view_history"):
            label = _("Its messages that have ended")
            links.append(to_page("history_changelist", label, flow=flow.pk))
        return links


def state_of(flow: Flow, words: Mapping[str, int], *, is_all: bool = True) -> tuple[str, bool]:
    """Return the state of a flow in words, and whether it no longer goes on by itself.

    Args:
        words: the number of its messages by their state or outcome.
        is_all: whether all its live messages were counted.
    """
    dead = words.get(State.DEAD, 0)
    if flow.ended_at or not _live(words):
        return _("Has ended"), False
    if _moves(words):
        return (_("Goes on, beside dead messages") if dead else _("Goes on")), False
    if dead and not is_all:
        return _("Has dead messages"), False
    if dead:
        return _("Can't go on: messages are dead"), True
    return _("Goes on"), False


def _facts(request: HttpRequest, flow: Flow, graph: Graph) -> list[tuple[str, Any]]:
    counts = [(word_for(word), grouped(count)) for word, count in in_order(graph.words)]
    end = flow.ended_at
    if end is None and graph.nodes and not _live(graph.words):
        end = max((node.finished_at for node in graph.nodes if node.finished_at), default=None)
    facts: list[tuple[str, Any]] = [
        (_("Messages"), grouped(sum(graph.words.values()))),
        *counts,
        (_("Stored"), _moment(flow.created_at)),
    ]
    if end is not None:
        facts += [
            (_("Ended"), _moment(end)),
            (_("Took"), duration(lasting(flow.created_at, end))),
        ]
    if flow.handler_id is not None:
        facts.append((_("Runs at its end"), to_row(request, "message", flow.handler_id)))
    return facts


def _steps(request: HttpRequest, graph: Graph) -> list[dict[str, Any]]:
    """Return the last messages of the critical path, with their waits and run times."""
    shown = []
    for before, step in zip([None, *graph.steps], graph.steps, strict=False):
        ready_at = before.finished_at if before else step.created_at
        began_at = step.started_at or step.finished_at
        link = to_row(request, "history", step.id, f"#{step.id}")
        waited, ran = lasting(ready_at, began_at), lasting(step.started_at, step.finished_at)
        shown.append({"link": link, "step": step, "waited": waited, "ran": ran})
    return shown[-STEPS:]


def _live(words: Mapping[str, int]) -> int:
    return sum(number for word, number in words.items() if word not in Outcome.values)


def _moves(words: Mapping[str, int]) -> bool:
    return any(words.get(word, 0) for word in MOVING)


def _moment(moment: datetime) -> str:
    return f"{local(moment):%Y-%m-%d %H:%M:%S}"


def _page_of(flow: Flow) -> str:
    return reverse("admin:pgqueue_flow_change", args=[flow.pk])
