from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.admin.lane import ended
from pgqueue.admin.links import with_urls
from pgqueue.admin.worker_links import WorkerLinks
from pgqueue.conf import settings
from pgqueue.models import Message, Worker
from pgqueue.models.fields import StatementTimestamp
from pgqueue.states import State
from pgqueue.templatetags.pgqueue_admin import grouped

TOLD = {
    "threads": _("threads"),
    "async": _("coroutines"),
    "duties": _("duties"),
    "version": _("version"),
    "receives": _("receives"),
    "workers": _("workers"),
    "master": _("master"),
    "executor": _("executor"),
}
"""The facts that workers report, beside their release and their driver."""
SHOWN = 50
RECENT = 20


class AliveFilter(admin.SimpleListFilter):
    title = _("alive")
    parameter_name = "alive"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", gettext("Alive")), ("0", gettext("Silent for a whole lease"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(is_alive=self.value() == "1") if self.value() else queryset


class WorkerChangeList(ChangeList):
    """Looks up the drivers of a page's workers together."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = _with_links(request, self.result_list)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The processes that serve channels."""

    list_display = (
        "__str__",
        "alive",
        "last_seen",
        "started_at",
        "release",
        "serves",
        "runs",
        "driver",
    )
    list_filter = (AliveFilter,)
    search_fields = ("host",)
    ordering = ("host", "pid")
    fieldsets = (
        (None, {"fields": ("id", "host", "pid", "alive", "heartbeat", "started_at", "release")}),
        (_("Work"), {"fields": ("serves", "runs", "driver", "notify_until", "messages", "recent")}),
    )
    readonly_fields = (
        "alive",
        "heartbeat",
        "release",
        "serves",
        "runs",
        "driver",
        "messages",
        "recent",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        seen_lately = Q(last_seen__gt=StatementTimestamp() - settings().lease)
        rows: QuerySet[Any] = super().get_queryset(request)
        told: QuerySet[Any] = rows.annotate(is_alive=ExpressionWrapper(seen_lately, BooleanField()))
        return told

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorkerChangeList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        worker = super().get_object(request, object_id, from_field)
        return _with_links(request, [worker])[0] if worker else None

    @admin.display(boolean=True, description=_("alive"))
    def alive(self, worker: Any) -> bool:
        return bool(worker.is_alive)

    @admin.display(description=_("last heartbeat"))
    def heartbeat(self, worker: Worker) -> str:
        return format_html(
            gettext("{} ago; after {} without one, others take its messages over"),
            timesince_in_seconds(worker.last_seen),
            in_seconds(settings().lease),
        )

    @admin.display(description=_("serves"))
    def serves(self, worker: Worker) -> str:
        served = gettext("every channel") if worker.channels is None else ", ".join(worker.channels)
        if not worker.excluded:
            return served
        return gettext("%(served)s except %(excluded)s") % {
            "served": served,
            "excluded": ", ".join(worker.excluded),
        }

    @admin.display(description=_("threads, version"))
    def runs(self, worker: Worker) -> str:
        apart = {"driver", "release"}
        told = {name: value for name, value in worker.info.items() if name not in apart}
        said = ", ".join(f"{TOLD.get(name, name)} {value}" for name, value in told.items())
        return said or NOTHING

    @admin.display(description=_("release"))
    def release(self, worker: Worker) -> str:
        return str(worker.info.get("release") or NOTHING)

    @admin.display(description=_("driver, of a worker on a cluster"))
    def driver(self, worker: Any) -> str:
        id = worker.info.get("driver")
        if not id:
            return NOTHING
        return str(worker.links.to(id))

    @admin.display(description=_("messages it holds"))
    def messages(self, worker: Worker) -> SafeString:
        held = Message.objects.using(settings().database).filter(
            state=State.RUNNING, worker_id=worker.pk
        )
        return format_html_join(
            "",
            '<div><a href="{}">{}</a></div>',
            (
                (reverse("admin:pgqueue_message_change", args=[message.pk]), message)
                for message in held.only("task").order_by("channel", "key")[:SHOWN]
            ),
        ) or format_html("{}", gettext("None"))

    @admin.display(description=_("messages that ended on it lately"))
    def recent(self, worker: Worker) -> str:
        rows = with_urls(ended({"worker_id": worker.pk}, RECENT))
        if not rows:
            return gettext("None")
        shown = {"caption": "", "rows": rows}
        return render_to_string("admin/pgqueue/messages.html", shown)


def _with_links(request: HttpRequest, rows: Iterable[Any]) -> list[Any]:
    """Return workers with links to their drivers."""
    workers = list(rows)
    links = WorkerLinks(request, [worker.info.get("driver") for worker in workers])
    for worker in workers:
        worker.links = links
    return workers


def timesince_in_seconds(moment: datetime) -> str:
    """Return the seconds since a moment."""
    return in_seconds(max(timezone.now() - moment, timedelta()))


def in_seconds(duration: timedelta) -> str:
    """Return a duration as seconds."""
    return gettext("%s s") % grouped(duration.total_seconds())
