from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import RESUMED, QueueAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.admin.fields import STARTS, PositionField
from pgqueue.conf import settings
from pgqueue.engine import groups as engine
from pgqueue.events import groups
from pgqueue.events.consumers import checked_new_name
from pgqueue.exceptions import InvalidGroup
from pgqueue.models import Group
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

SHOWN = 3
"""The most readers of a group that the list names."""
STATE = ("state", "position", "lag", "readers", "last_moved", "parked", "cursors")


class NewGroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """Has the fields that are fixed later, and the position where the group begins."""

    start = PositionField(label=_("Start"), initial="now", help_text=STARTS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django would look in the database of its routers or of the instance.
        self.instance._state.db = settings().database

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            checked_new_name(name)
        except (TypeError, ValueError) as error:
            raise ValidationError(str(error)) from error
        # Django would look in the database that its routers choose.
        if Group.objects.using(settings().database).filter(pk=name).exists():
            raise ValidationError(gettext("There is such a group already."))
        return name


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """Moves a group."""

    move_to = PositionField(
        required=False,
        label=_("Move to"),
        help_text=format_lazy(
            "{} {}",
            STARTS,
            _(
                "Its readers go on from there. Events behind it are handled again, those before "
                "it are not."
            ),
        ),
    )


class GroupChangeList(ChangeList):
    """Looks up the positions only for the groups of a page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = _seen(self.result_list)


@admin.register(Group)
class GroupAdmin(QueueAdmin):
    """The groups of the event log, with their readers and positions."""

    actions = ("resume", "rebuild")
    list_display = ("name", "partitions", "position", "lag", "readers", "state", "last_moved")
    search_fields = ("name",)
    ordering = ("name",)
    # A page reads all partitions of its groups. Few groups have more than a dozen, none over 1 024.
    list_per_page = list_max_show_all = 20

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return GroupChangeList

    def get_form(
        self, request: HttpRequest, obj: Group | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(
            request, obj, change, form=GroupForm if obj else NewGroupForm, **kwargs
        )

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ("name", "partitions", "start")})]
        may_move = self.has_change_permission(request, obj)
        shown = [(None, {"fields": ("name", "partitions", "created_at", *STATE)})]
        return [*shown, (_("Reset"), {"fields": ("move_to",)})] if may_move else shown

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        return ("name", "partitions", "created_at", *STATE) if obj else ()

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        group = super().get_object(request, object_id, from_field)
        return next(iter(_seen([group])), None) if group else None

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST":
            # Give positions to earlier events now: Django's transaction would give them none.
            groups.resolve(connections[settings().database], "now")
        return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given, database = form.cleaned_data, settings().database
        if not change:
            groups.make(
                obj.name, partitions=obj.partitions, start=given["start"], database=database
            )
        elif given.get("move_to") is not None:
            groups.reset(obj.name, given["move_to"], database=database)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        moved_to = form.cleaned_data.get("move_to")
        if add or moved_to is None:
            return super().construct_change_message(request, form, formsets, add)
        return gettext("Moved to position %d.") % moved_to

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        # It is gone if the group whose rebuild it was is deleted, too.
        with suppress(InvalidGroup):
            groups.delete(obj.name, database=settings().database)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for group in queryset:
            self.delete_model(request, group)

    @admin.display(description=_("position"))
    def position(self, group: Any) -> int:
        return int(group.seen.position)

    @admin.display(description=_("lag"))
    def lag(self, group: Any) -> int:
        return int(group.seen.lag)

    @admin.display(description=_("readers"))
    def readers(self, group: Any) -> str:
        """Return the names of the processes that read for the group."""
        names = group.read_by
        shown, more = ", ".join(names[:SHOWN]) or NOTHING, len(names) - SHOWN
        if more <= 0:
            return shown
        return gettext("%(names)s and %(more)d more") % {"names": shown, "more": more}

    @admin.display(description=_("state"))
    def state(self, group: Any) -> str:
        """Return whether the group goes on; if not, the reason."""
        seen, error = group.seen, str(group.seen.error)
        if seen.stopped:
            return gettext("stopped: %s") % error
        if error:
            return gettext("retrying: %s") % error
        return gettext("reading") if seen.readers else gettext("idle")

    @admin.display(description=_("last moved"))
    def last_moved(self, group: Any) -> str:
        # On the page of a group, Django would show a time in Python's format.
        return display_for_value(group.seen.updated_at, NOTHING)

    @admin.display(description=_("events given up"))
    def parked(self, group: Group) -> SafeString:
        url = reverse("admin:pgqueue_message_changelist")
        query = urlencode({"channel": f"group:{group.name}", "state": "dead"})
        return format_html('<a href="{}?{}">{}</a>', url, query, _("Dead letters"))

    @admin.display(description=_("each partition"))
    def cursors(self, group: Group) -> SafeString:
        rows = engine.cursors(connections[settings().database], group.name)
        return render_to_string("admin/pgqueue/cursors.html", {"cursors": rows})

    @admin.action(permissions=["change"], description=_("Resume: try again what failed"))
    def resume(self, request: HttpRequest, queryset: QuerySet[Group]) -> HttpResponse | None:
        count = 0
        for group, resumed in self.each(request, queryset, groups.resume):
            if resumed:
                self.log_change(request, group, str(RESUMED.said))
            count += resumed
        said = ngettext("%d partition resumed.", "%d partitions resumed.", count)
        self.message_user(request, said % count)
        return None

    @admin.action(permissions=["change"], description=_("Rebuild from the beginning of the log"))
    def rebuild(self, request: HttpRequest, queryset: QuerySet[Group]) -> HttpResponse | None:
        count = 0
        for group, _position in self.each(request, queryset, groups.rebuild):
            self.log_change(request, group, gettext("A rebuild was begun."))
            count += 1
        if count:
            said = ngettext("%d rebuild begun.", "%d rebuilds begun.", count)
            self.message_user(request, said % count)
        return None

    def in_words(self, row: Any, error: Exception) -> str:
        """Return an error as the user sees it, also one of the project's `begin`."""
        if isinstance(error, InvalidGroup):  # a rebuild may have ended meanwhile
            return str(error)
        logger.exception("The action on the group %s failed", row.name)
        return f"{row.name}: {type(error).__name__}: {error}"


def _seen(found: Iterable[Any]) -> list[Any]:
    """Return groups with their positions and readers."""
    rows, connection = list(found), connections[settings().database]
    names = [group.name for group in rows]
    states = {each.name: each for each in engine.states(connection, names)}
    readers = engine.readers(connection, names)
    for group in rows:
        group.seen, group.read_by = states.get(group.name), readers[group.name]
    return [group for group in rows if group.seen]
