from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.conf import settings
from pgqueue.models import Message, Worker
from pgqueue.models.clock import StatementTimestamp
from pgqueue.states import State

SHOWN = 50


class AliveFilter(admin.SimpleListFilter):
    title = "alive"
    parameter_name = "alive"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Alive"), ("0", "Silent for a whole lease")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(is_alive=self.value() == "1") if self.value() else queryset


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The processes that serve channels."""

    list_display = ("__str__", "alive", "last_seen", "started_at", "serves", "runs", "driver")
    list_filter = (AliveFilter,)
    search_fields = ("host",)
    ordering = ("host", "pid")
    fieldsets = (
        (None, {"fields": ("id", "host", "pid", "alive", "last_seen", "started_at")}),
        ("Work", {"fields": ("serves", "runs", "driver", "notify_until", "messages")}),
    )
    readonly_fields = ("alive", "serves", "runs", "driver", "messages")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        seen_lately = Q(last_seen__gt=StatementTimestamp() - settings().lease)
        rows: QuerySet[Any] = super().get_queryset(request)
        told: QuerySet[Any] = rows.annotate(is_alive=ExpressionWrapper(seen_lately, BooleanField()))
        return told

    @admin.display(boolean=True)
    def alive(self, worker: Any) -> bool:
        return bool(worker.is_alive)

    @admin.display
    def serves(self, worker: Worker) -> str:
        served = "every channel" if worker.channels is None else ", ".join(worker.channels)
        return f"{served} except {', '.join(worker.excluded)}" if worker.excluded else served

    @admin.display
    def runs(self, worker: Worker) -> str:
        told = {name: value for name, value in worker.info.items() if name != "driver"}
        return ", ".join(f"{name} {value}" for name, value in told.items())

    @admin.display(description="driver, of a worker on a cluster")
    def driver(self, worker: Worker) -> str:
        id = worker.info.get("driver")
        if not id:
            return ""
        return format_html(
            '<a href="{}">{}</a>', reverse("admin:pgqueue_worker_change", args=[id]), id
        )

    @admin.display(description="messages it holds")
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
        ) or format_html("None")
