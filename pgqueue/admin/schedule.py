from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.conf import settings
from pgqueue.exceptions import InvalidSchedule, PGQueueError
from pgqueue.models import Message, Schedule
from pgqueue.models.schedule import ScheduleQuerySet
from pgqueue.schedules import project_timezone
from pgqueue.tasks import scheduling
from pgqueue.ticks import upcoming

SHOWN = 5
FIELDS: Any = (
    (None, {"fields": ("name", "task", "args", "kwargs", "paused")}),
    ("When", {"fields": ("cron", "every", "timezone", "missed", "overlap")}),
    ("Message", {"fields": ("channel", "priority")}),
)
DONE: Any = (
    "Ticks",
    {"fields": ("when", "next_ticks", "ticked_at", "message", "error", "seen_at")},
)


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """Refuses what no worker could do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django asks where its routers say, or where the instance is from.
        self.instance._state.db = settings().database

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Schedule.objects.using(settings().database).filter(pk=name).exists():
            raise ValidationError("There is such a schedule already.")
        return name

    def clean(self) -> dict[str, Any]:
        """Look whether there is such a time and such a task, and whether it takes the arguments."""
        given: dict[str, Any] = super().clean() or {}
        if self.errors or self.instance.declared:
            return given
        row = Schedule(**given)
        if "name" not in given:  # it is read-only
            row.name = self.instance.name
        try:
            scheduling.check(row)
        except InvalidSchedule as error:
            raise ValidationError(str(error)) from error
        return given


@admin.register(Schedule)
class ScheduleAdmin(QueueAdmin):
    """When tasks are enqueued by themselves. What code says may only be paused here."""

    form = ScheduleForm
    actions = ("pause", "resume", "run_now")
    list_display = ("name", "task", "when", "paused", "next_at", "ticked_at", "failed", "declared")
    list_filter = ("paused", "declared")
    search_fields = ("name", "task")
    ordering = ("name",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"timezone": project_timezone(), **super().get_changeform_initial_data(request)}

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        return (*FIELDS, DONE) if obj else FIELDS

    def get_readonly_fields(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> tuple[str, ...]:
        if obj is None:
            return ()
        of_code = [name for _, part in FIELDS for name in part["fields"] if name != "paused"]
        return (*(of_code if obj.declared else ["name"]), *DONE[1]["fields"])

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        # It would come back: it is to be deleted in the code.
        return super().has_delete_permission(request, obj) and not (obj and obj.declared)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        # Only this field: a worker may have declared the schedule again meanwhile.
        obj.save(using=settings().database, update_fields=form.changed_data)

    @admin.display
    def when(self, schedule: Schedule) -> str:
        """Return when it ticks, or why that is unknown."""
        try:
            return schedule.rhythm.in_words()
        except InvalidSchedule as error:
            return str(error)

    @admin.display
    def next_ticks(self, schedule: Schedule) -> str:
        try:
            rhythm, zone = schedule.rhythm, ZoneInfo(schedule.timezone)
        except InvalidSchedule:
            return NOTHING
        ticks = upcoming(rhythm, timezone.now().astimezone(UTC), SHOWN)
        return format_html_join(
            "",
            "<div>{}</div>",
            ((f"{tick.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}",) for tick in ticks),
        )

    @admin.display
    def message(self, schedule: Schedule) -> str:
        """Link to the last message, live or ended."""
        if schedule.message_id is None:
            return NOTHING
        rows = Message.objects.using(settings().database).filter(pk=schedule.message_id)
        model = "message" if rows.exists() else "history"
        url = reverse(f"admin:pgqueue_{model}_change", args=[schedule.message_id])
        return format_html('<a href="{}">{}</a>', url, schedule.message_id)

    @admin.display(boolean=True)
    def failed(self, schedule: Schedule) -> bool | None:
        return False if schedule.error else None

    @admin.action(permissions=["change"], description="Pause: enqueue nothing")
    def pause(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        changed = list(queryset.filter(paused=False))
        queryset.pause()
        self._report(request, changed, "paused")

    @admin.action(permissions=["change"], description="Resume")
    def resume(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        changed = list(queryset.filter(paused=True))
        queryset.resume()
        self._report(request, changed, "resumed")

    @admin.action(permissions=["change"], description="Run now, besides its ticks")
    def run_now(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        ran = []
        for schedule in queryset:
            try:
                with transaction.atomic(using=settings().database):
                    result = scheduling.run(schedule.name)
            except (PGQueueError, ObjectDoesNotExist) as error:
                self.message_user(request, f"{schedule}: {error}", messages.ERROR)
                continue
            if result.came_of == "existing":
                said = f"{schedule}: message {result.id} waits or runs already."
                self.message_user(request, said, messages.WARNING)
            else:
                ran.append(schedule)
        self._report(request, ran, "enqueued")

    def _report(self, request: HttpRequest, changed: Sequence[Schedule], done: str) -> None:
        for schedule in changed:
            self.log_change(request, schedule, f"{done.capitalize()}.")
        self.message_user(request, f"{len(changed)} {done}.")
