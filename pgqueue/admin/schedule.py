from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import ENQUEUED, PAUSED, RESUMED, QueueAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.codec.scalars import as_float
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import lookup
from pgqueue.engine.errors import entries
from pgqueue.engine.lookup import Found
from pgqueue.engine.values import Tuples
from pgqueue.exceptions import InvalidSchedule, PGQueueError
from pgqueue.models import Message, Schedule
from pgqueue.models.schedule import ScheduleQuerySet
from pgqueue.options.schedules import project_timezone
from pgqueue.options.ticks import upcoming
from pgqueue.redaction import MASK, Hidden, is_masked
from pgqueue.tasks import redacting, scheduling
from pgqueue.templatetags.pgqueue_admin import when
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

SHOWN = 10
ARGUMENTS = ("args", "kwargs")
FIELDS: Any = (
    (None, {"fields": ("name", "task", "args", "kwargs", "paused")}),
    (_("When"), {"fields": ("cron", "every", "timezone", "missed", "overlap")}),
    (_("Message"), {"fields": ("channel", "priority")}),
)
DONE: Any = (
    _("Ticks"),
    {"fields": ("when", "next_ticks", "runs", "ticked_at", "message", "shown_error", "seen_at")},
)


@dataclass(frozen=True)
class Ran:
    """The message of a tick, for the page of its schedule."""

    url: str
    id: int
    state: str
    tick: str
    began: datetime | None
    seconds: float | None
    error: str

    @classmethod
    def of(cls, row: Found) -> Ran:
        """Return the data of a message, live or ended."""
        model = "history" if row.finished_at else "message"
        ran = row.finished_at - row.started_at if row.finished_at and row.started_at else None
        errors = entries(row.errors)
        return cls(
            reverse(f"admin:pgqueue_{model}_change", args=[row.id]),
            row.id,
            row.state,
            json.loads(row.metadata).get("tick", ""),
            row.started_at or row.claimed_at,
            ran.total_seconds() if ran else None,
            str(errors[-1].get("class", "")) if errors and row.state != "succeeded" else "",
        )


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """Refuses a schedule that no worker could run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django would look in the database of its routers or of the instance.
        self.instance._state.db = settings().database
        self.stored = {name: getattr(self.instance, name) for name in ARGUMENTS}
        if not self.instance._state.adding:
            # The form shows a schedule's arguments redacted, like the pages of its messages.
            self.initial.update(shown_arguments(self.instance)[0])

    def clean_args(self) -> Any:
        return self._unless_hidden("args")

    def clean_kwargs(self) -> Any:
        return self._unless_hidden("kwargs")

    def _unless_hidden(self, name: str) -> Any:
        """Return the value to store: the stored one, if the field is unchanged.

        Raises:
            ValidationError: a changed field still contains `MASK`, or the task has changed.
        """
        value, was = self.cleaned_data[name], self.initial.get(name)
        is_hidden = not self.instance._state.adding and was != self.stored[name]
        if is_hidden and value == was and "task" not in self.changed_data:
            return self.stored[name]
        if is_masked(value) and is_hidden:
            raise ValidationError(
                gettext("Write a value in the place of each %s: all are stored anew.") % MASK
            )
        return value

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Schedule.objects.using(settings().database).filter(pk=name).exists():
            raise ValidationError(gettext("There is such a schedule already."))
        return name

    def clean(self) -> dict[str, Any]:
        """Check that the time and the task exist, and that the task takes the arguments."""
        given: dict[str, Any] = super().clean() or {}
        if self.errors or self.instance.declared:
            return given
        row = Schedule(**given)
        if "name" not in given:  # the name is read-only
            row.name = self.instance.name
        try:
            scheduling.check_schedule(row)
        except InvalidSchedule as error:
            # It may quote an argument that the form has shown redacted.
            raise ValidationError(shown_arguments(self.instance)[1](str(error))) from error
        return given


def shown_arguments(schedule: Schedule) -> tuple[dict[str, Any], Hidden]:
    """Return the redacted arguments of a schedule, and a function that hides the same values."""
    args, kwargs, hidden = redacting.redacted_call(schedule.task, schedule.args, schedule.kwargs)
    return {"args": args, "kwargs": kwargs}, hidden


@admin.register(Schedule)
class ScheduleAdmin(QueueAdmin):
    """The schedules of tasks. A schedule that code declares may only be paused here."""

    form = ScheduleForm
    change_form_template = "admin/pgqueue/schedule.html"
    actions = ("pause", "resume", "run_now")
    list_display = ("name", "task", "when", "paused", "next_at", "ticked_at", "failed", "declared")
    list_filter = ("paused", "declared")
    search_fields = ("name", "task")
    ordering = ("name",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"timezone": project_timezone(), **super().get_changeform_initial_data(request)}

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        if obj is None:
            return FIELDS
        if self._is_edited(request, obj):
            return (FIELDS[0], DONE, *FIELDS[1:])
        fields = [f"shown_{name}" if name in ARGUMENTS else name for name in FIELDS[0][1]["fields"]]
        return ((None, {"fields": fields}), DONE, *FIELDS[1:])

    def _is_edited(self, request: HttpRequest, obj: Schedule) -> bool:
        return not obj.declared and self.has_change_permission(request, obj)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in ARGUMENTS:
            # Django must compare the field with the current row, not with the row when shown.
            kwargs["show_hidden_initial"] = False
            kwargs["parse_float"] = as_float
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> tuple[str, ...]:
        if obj is None:
            return ()
        of_code = [name for _title, part in FIELDS for name in part["fields"] if name != "paused"]
        shown = [f"shown_{name}" for name in ARGUMENTS]
        return (*(of_code if obj.declared else ["name"]), *shown, *DONE[1]["fields"])

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        # A worker would declare it again: delete it in the code.
        return super().has_delete_permission(request, obj) and not (obj and obj.declared)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        # Save only the changed fields: a worker may have declared the schedule again meanwhile.
        obj.save(using=settings().database, update_fields=form.changed_data)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        schedule = context.get("original")
        allowed = self.get_actions(request)
        if schedule is not None:
            switch = {"resume": _("Resume")} if schedule.paused else {"pause": _("Pause")}
            labels = {**switch, "run_now": _("Run now")}
            context["buttons"] = [(name, labels[name]) for name in labels if name in allowed]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("when"))
    def when(self, schedule: Schedule) -> str:
        """Return the times of the ticks in words, or the reason why they are unknown."""
        return when(schedule)

    @admin.display(description=_("args"))
    def shown_args(self, schedule: Schedule) -> str:
        """Return the arguments, redacted like the arguments of messages."""
        return redacting.to_text(shown_arguments(schedule)[0]["args"])

    @admin.display(description=_("kwargs"))
    def shown_kwargs(self, schedule: Schedule) -> str:
        """Return the named arguments, redacted likewise."""
        return redacting.to_text(shown_arguments(schedule)[0]["kwargs"])

    @admin.display(description=_("error"))
    def shown_error(self, schedule: Schedule) -> str:
        """Return the reason why a tick had no message, redacted likewise."""
        return shown_arguments(schedule)[1](schedule.error) or NOTHING

    @admin.display(description=_("next ticks"))
    def next_ticks(self, schedule: Schedule) -> str:
        try:
            rhythm, zone = schedule.rhythm, ZoneInfo(schedule.timezone)
        except (InvalidSchedule, KeyError, ValueError, OSError):  # or its zone is unknown
            return NOTHING
        ticks = upcoming(rhythm, timezone.now().astimezone(UTC), SHOWN)
        return format_html_join(
            "",
            "<div>{}</div>",
            ((date_format(tick.astimezone(zone), "D Y-m-d H:i:s T"),) for tick in ticks),
        )

    @admin.display(description=_("last runs"))
    def runs(self, schedule: Schedule) -> str:
        """Show the messages of the last ticks, with their outcomes and run times."""
        recent = schedule.recent if isinstance(schedule.recent, list) else []
        ids = [each for each in recent if isinstance(each, int)]
        with borrow(settings().database) as connection:
            found = lookup.find_each(Tuples(connection), ids)
        rows = [found[id] for id in ids if id in found]
        if not rows:
            return NOTHING
        return render_to_string("admin/pgqueue/runs.html", {"runs": [Ran.of(row) for row in rows]})

    @admin.display(description=_("message"))
    def message(self, schedule: Schedule) -> str:
        """Link to the last message, live or ended."""
        if schedule.message_id is None:
            return NOTHING
        rows = Message.objects.using(settings().database).filter(pk=schedule.message_id)
        model = "message" if rows.exists() else "history"
        url = reverse(f"admin:pgqueue_{model}_change", args=[schedule.message_id])
        return format_html('<a href="{}">{}</a>', url, schedule.message_id)

    @admin.display(boolean=True, description=_("failed"))
    def failed(self, schedule: Schedule) -> bool | None:
        return False if schedule.error else None

    @admin.action(permissions=["change"], description=_("Pause: enqueue nothing"))
    def pause(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        changed = list(queryset.filter(paused=False))
        queryset.pause()
        self.report(request, changed, PAUSED)

    @admin.action(permissions=["change"], description=_("Resume"))
    def resume(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        changed = list(queryset.filter(paused=True))
        queryset.resume()
        self.report(request, changed, RESUMED)

    @admin.action(permissions=["change"], description=_("Run now, besides its ticks"))
    def run_now(self, request: HttpRequest, queryset: ScheduleQuerySet) -> None:
        ran = []
        for schedule in queryset:
            try:
                with transaction.atomic(using=settings().database):
                    result = scheduling.run(schedule.name)
            except (PGQueueError, ObjectDoesNotExist) as error:
                said = shown_arguments(schedule)[1](str(error))
                self.message_user(request, f"{schedule}: {said}", messages.ERROR)
                continue
            except Exception as error:
                # The project's code has failed. The schedules before this one are enqueued.
                said = shown_arguments(schedule)[1](f"{type(error).__name__}: {error}")
                logger.error("The schedule %s can't be run: %s", schedule.name, said)
                self.message_user(request, f"{schedule}: {said}", messages.ERROR)
                continue
            if result.came_of == "existing":
                said = gettext("%(schedule)s: message %(id)s waits or runs already.")
                told = said % {"schedule": schedule, "id": result.id}
                self.message_user(request, told, messages.WARNING)
            else:
                ran.append(schedule)
        self.report(request, ran, ENQUEUED)
