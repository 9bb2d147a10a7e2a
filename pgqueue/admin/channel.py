from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Q
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import PAUSED, RESUMED
from pgqueue.admin.channel_page import ChannelPages
from pgqueue.admin.links import to_page
from pgqueue.conf import settings
from pgqueue.engine import channels
from pgqueue.models import Channel
from pgqueue.models.channel import IS_PAUSED, RETENTIONS, ChannelQuerySet


class ChannelForm(forms.ModelForm):  # type: ignore[type-arg]
    """Has a field for the name only when a channel is added: the name is the key."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        until = self.fields.get("paused_until")
        if until and isinstance(until.widget, forms.MultiWidget):
            # Django labels the group of its two inputs, and neither of them.
            date, time = until.widget.widgets
            date.attrs["aria-label"] = _("Date")
            time.attrs["aria-label"] = _("Time")
            # Django shows the value that the form began with again only under this name, which two
            # inputs do not post. In its place it shows the new value, so nothing seems changed.
            began_with, given = self.add_initial_prefix("paused_until"), cast("Any", self.data)
            if self.is_bound and began_with not in given:
                self.data = given = given.copy()
                given[began_with] = ""

    def clean_name(self) -> str:
        # Django would look in the database that its routers choose.
        name: str = self.cleaned_data["name"]
        if Channel.objects.using(settings().database).filter(pk=name).exists():
            raise ValidationError(gettext("There is such a channel already."))
        return name

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("paused_until") and not given.get("paused"):
            said = gettext("Only a paused channel has an end of its pause.")
            raise ValidationError({"paused_until": said})
        return given


@admin.register(Channel)
class ChannelAdmin(ChannelPages):
    """The channels with settings other than the defaults."""

    form = ChannelForm
    actions = ("pause", "resume")
    list_display = (
        *("name", "paused", "paused_until", "retention", "on_dead", "on_full"),
        *("page", "messages", "policies"),
    )
    list_filter = ("paused",)
    search_fields = ("name",)
    ordering = ("name",)

    def get_fieldsets(self, request: HttpRequest, obj: Channel | None = None) -> Any:
        fields = [name for name in self.get_fields(request, obj) if name not in RETENTIONS]
        kept = {
            "fields": RETENTIONS,
            "description": _("As days and hours: 7 12:00:00. What is empty is kept as all is."),
        }
        return [(None, {"fields": fields}), (_("How long messages are kept"), kept)]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Channel | None = None
    ) -> tuple[str, ...]:
        # With another name, the form would save another channel.
        return ("name", "page", "messages", "policies", "lanes") if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        # Save only the changed fields: somebody may have paused the channel meanwhile.
        obj.save(using=settings().database, update_fields=form.changed_data)

    @admin.display(description=_("now"))
    def page(self, channel: Channel) -> str:
        return to_page("channel_page", _("What it has"), name=channel.name)

    @admin.display(description=_("messages"))
    def messages(self, channel: Channel) -> SafeString:
        return _of_channel("message", gettext("Messages"), channel)

    @admin.display(description=_("policies"))
    def policies(self, channel: Channel) -> SafeString:
        return _of_channel("policy", gettext("Policies"), channel)

    @admin.display(description=_("lanes under a limit or in order"))
    def lanes(self, channel: Channel) -> SafeString:
        seen = channels.lanes(connections[settings().database], channel.name)
        shown = {"lanes": seen, "limit": channels.LANES, "bound": channels.LANE_BOUND}
        return render_to_string("admin/pgqueue/lanes.html", shown)

    @admin.action(permissions=["change"], description=_("Pause: start none of their messages"))
    def pause(self, request: HttpRequest, queryset: ChannelQuerySet) -> None:
        # A pause that has an end gets none.
        changed = list(queryset.filter(~IS_PAUSED | Q(paused_until__isnull=False)))
        queryset.pause()
        self.report(request, changed, PAUSED)

    @admin.action(permissions=["change"], description=_("Resume"))
    def resume(self, request: HttpRequest, queryset: ChannelQuerySet) -> None:
        changed = list(queryset.paused())
        queryset.resume()
        self.report(request, changed, RESUMED)


def _of_channel(model: str, label: str, channel: Channel) -> SafeString:
    url = reverse(f"admin:pgqueue_{model}_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode({"channel": channel.name}), label)
