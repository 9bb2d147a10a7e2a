"""The page of one channel, configured or not: its messages, its limits and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import connections, transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue import models
from pgqueue.admin import breakers
from pgqueue.admin.base import QueueAdmin
from pgqueue.admin.lane import serving
from pgqueue.admin.links import page_url, to_page, to_row, with_urls
from pgqueue.admin.operations import CANCEL, REPLAY, RUN_NOW, user_of
from pgqueue.admin.preview import in_words
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import channels, workers
from pgqueue.engine.live_counts import Stats
from pgqueue.exceptions import ChannelFull, InvalidChannel
from pgqueue.listing import index
from pgqueue.listing.index import NOT_IN_ORDER, without
from pgqueue.listing.messages import last_error
from pgqueue.models import Message
from pgqueue.models.fields import StatementTimestamp, exactly
from pgqueue.operating import bulk
from pgqueue.operating.channels import WAITING, Channel
from pgqueue.states import State
from pgqueue.templatetags.pgqueue_admin import figure, grouped
from pgqueue.values.instants import aware
from pgqueue.values.names import as_channel

SHOWN = 10
PURGED = (*WAITING, State.DEAD)


class PurgeForm(forms.Form):
    """The part of a channel to purge or trim."""

    states = forms.MultipleChoiceField(
        label=_("States"),
        choices=[(state.value, state.label) for state in PURGED],
        widget=forms.CheckboxSelectMultiple,
        initial=[state.value for state in PURGED],
    )


class TrimForm(forms.Form):
    """The age and the number of messages from which on a trim discards."""

    older_than = forms.DurationField(
        label=_("Older than"), help_text=_("Days and hours: 7 12:00:00."), required=False
    )
    keep = forms.IntegerField(label=_("Keep the newest"), required=False, min_value=0)

    def clean(self) -> dict[str, Any]:
        """Refuse a trim without an age and a number."""
        given: dict[str, Any] = super().clean() or {}
        if not self.errors and given.get("older_than") is None and given.get("keep") is None:
            raise forms.ValidationError(_("Give an age, or how many are kept, or both."))
        return given


class ChannelPages(QueueAdmin):
    """Has the page of a channel, and the pages of a purge or a trim."""

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("page/", wrap(self.page_view), name="pgqueue_channel_page"),
            path("purge/", wrap(self.purge_view), name="pgqueue_channel_purge"),
            path("trim/", wrap(self.trim_view), name="pgqueue_channel_trim"),
            *super().get_urls(),
        ]

    def page_view(self, request: HttpRequest) -> HttpResponse:
        """Show a channel; pause or resume it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        channel = _named(request)
        if request.method == "POST":
            return self._switch(request, channel)
        configured, stats = channel.configured(), channel.stats()
        failing = breakers.seen(channel.name)
        context = {
            **self._context(request, channel, gettext("Channel “%s”") % channel.name),
            "configured": configured,
            "stats": stats,
            "facts": _facts(stats, channel),
            "policies": _policies(request, channel),
            "adding": _adding(request, channel),
            "breakers": [
                (breakers.scope_of(each), breakers.in_words(request, each)) for each in failing
            ],
            "is_stopped": configured.is_paused or any(each.stops for each in failing),
            "lanes": channels.lanes(connections[settings().database], channel.name),
            "limit": channels.LANES,
            "bound": channels.LANE_BOUND,
            # Errors of dead letters contain texts of messages.
            "may_see_messages": request.user.has_perm("pgqueue.view_message"),
            "dead": _dead(channel) if request.user.has_perm("pgqueue.view_message") else [],
            "workers": [
                (to_row(request, "worker", each.pk, each), each.last_seen)
                for each in serving(channel.name)
            ],
            "links": self._links(request, channel),
            "may_change": self.has_change_permission(request),
            "configure": _configure(request, channel, configured),
        }
        return TemplateResponse(request, "admin/pgqueue/channel/page.html", context)

    def purge_view(self, request: HttpRequest) -> HttpResponse:
        """Ask which messages to purge, then count them, then begin."""
        channel = self._purged(request)
        form = PurgeForm(request.POST or None)
        if not form.is_valid():
            return self._ask(request, channel, gettext("Purge"), form)
        states = form.cleaned_data["states"]
        stats = channel.stats()
        count = sum(getattr(stats, state) for state in states)
        is_exact = not stats.estimated & set(states)
        options = {"states": states}
        return self._counted(request, channel, gettext("Purge"), form, (count, is_exact), options)

    def trim_view(self, request: HttpRequest) -> HttpResponse:
        """Ask which messages to trim, then count them, then begin."""
        channel = self._purged(request)
        form = TrimForm(request.POST or None)
        if not form.is_valid():
            return self._ask(request, channel, gettext("Trim"), form)
        given = form.cleaned_data
        age = None if given["older_than"] is None else given["older_than"].total_seconds()
        options = {"states": [*WAITING], "older_than": age, "keep": given["keep"]}
        return self._counted(
            request, channel, gettext("Trim"), form, _too_much(channel, given), options
        )

    def _counted(
        self,
        request: HttpRequest,
        channel: Channel,
        title: str,
        form: forms.Form,
        counted: tuple[int, bool],
        options: Mapping[str, Any],
    ) -> HttpResponse:
        if "confirmed" not in request.POST:
            return self._ask(request, channel, title, form, counted=counted, newest=bulk.newest())
        newest = request.POST.get("newest", "")
        if not (newest.isascii() and newest.isdecimal() and len(newest) < 19):
            raise BadRequest(f"newest={newest!r}: it must be an id.")
        user = user_of(request)
        try:
            with transaction.atomic(using=settings().database):
                message = bulk.start_purge(channel.name, newest=int(newest), user=user, **options)
        except (ValueError, TypeError) as error:
            raise BadRequest(str(error)) from error
        except ChannelFull as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(page_url("channel_page", name=channel.name))
        said = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
        self.log_change(
            request, models.Channel(name=channel.name), f"{title}: asked for, with {said}."
        )
        return HttpResponseRedirect(_progress_url(message.id))

    def _ask(
        self, request: HttpRequest, channel: Channel, title: str, form: forms.Form, **counted: Any
    ) -> HttpResponse:
        context = {
            **self._context(request, channel, title),
            "form": form,
            "is_served": bool(serving(bulk.CHANNEL)),
            "operations": bulk.CHANNEL,
            **counted,
        }
        return TemplateResponse(request, "admin/pgqueue/channel/purge.html", context)

    def _purged(self, request: HttpRequest) -> Channel:
        may = request.user.has_perm("pgqueue.purge_message")
        if not (may and self.has_view_permission(request)):
            raise PermissionDenied
        return _named(request)

    def _switch(self, request: HttpRequest, channel: Channel) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        switches = {"pause": _pause, "resume": _resume}
        switch = switches.get(request.POST.get("switch", ""))
        if switch is None:
            raise BadRequest("switch: pause or resume.")
        try:
            said = switch(channel, request)
        except (ValidationError, InvalidChannel):
            said = ""
            self.message_user(
                request, gettext("The end of a pause must be later than now."), messages.ERROR
            )
        if said:
            self.log_change(request, models.Channel(name=channel.name), said)
            self.message_user(request, said)
        return HttpResponseRedirect(page_url("channel_page", name=channel.name))

    def _context(self, request: HttpRequest, channel: Channel, title: str) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "channel": channel,
            "back": page_url("channel_changelist"),
            "page": page_url("channel_page", name=channel.name),
        }

    def _links(self, request: HttpRequest, channel: Channel) -> list[str]:
        """Return links to the channel's messages, and to the operations that the user may start."""
        name, user = channel.name, request.user
        links = []
        if user.has_perm("pgqueue.view_message"):
            links.append(to_page("message_changelist", gettext("Messages"), channel=name))
        if user.has_perm("pgqueue.view_history"):
            links.append(to_page("history_changelist", gettext("History"), channel=name))
        if user.has_perms(["pgqueue.view_message", "pgqueue.operate_message"]):
            links += [
                to_page(
                    "message_bulk", gettext("%s all …") % each.label, action=each.name, channel=name
                )
                for each in (REPLAY, RUN_NOW, CANCEL)
            ]
        if user.has_perm("pgqueue.purge_message"):
            links.append(to_page("channel_purge", gettext("Purge …"), name=name))
            links.append(to_page("channel_trim", gettext("Trim …"), name=name))
        return links


def _named(request: HttpRequest) -> Channel:
    try:
        return Channel(as_channel(request.GET.get("name", "")))
    except ValueError as error:
        raise BadRequest(f"name: {error}") from error


def _progress_url(id: Any) -> str:
    return reverse("admin:pgqueue_message_bulk_progress", args=[id])


def _facts(stats: Stats, channel: Channel) -> list[tuple[str, str]]:
    """Return the channel's current counts and rates."""

    def number(name: str) -> str:
        shown = grouped(getattr(stats, name))
        return gettext("about %s") % shown if name in stats.estimated else shown

    with borrow(settings().database) as connection:
        is_drained = not workers.unfinished(connection, channels=[channel.name], excluded=[])
    age = stats.oldest_ready_age
    return [
        (gettext("Ready"), number("ready")),
        (gettext("Running"), number("running")),
        (gettext("Scheduled"), number("scheduled")),
        (gettext("Held"), number("held")),
        (gettext("Dead"), number("dead")),
        (
            gettext("Oldest ready"),
            "-" if age is None else gettext("%s s") % grouped(age.total_seconds()),
        ),
        (gettext("Enqueued each second"), figure(stats.enqueued_per_second)),
        (gettext("Ended each second"), figure(stats.finished_per_second)),
        (
            gettext("Drained"),
            gettext("yes") if is_drained else gettext("no: something is ready, runs or is retried"),
        ),
    ]


def _policies(request: HttpRequest, channel: Channel) -> list[tuple[str, str]]:
    return [
        (
            policy.key if policy.scope == models.Policy.Scope.KEY else policy.get_scope_display(),
            to_row(request, "policy", policy.pk, in_words(policy)),
        )
        for policy in channel.policies()[:SHOWN]
    ]


def _adding(request: HttpRequest, channel: Channel) -> list[str]:
    if not request.user.has_perm("pgqueue.add_policy"):
        return []
    scopes = {
        "channel": gettext("Limit the channel as a whole …"),
        "each": gettext("Limit each key …"),
        "key": gettext("Limit one key …"),
    }
    there = {policy.scope for policy in channel.policies()} - {"key"}
    return [
        to_page("policy_add", label, channel=channel.name, scope=scope)
        for scope, label in scopes.items()
        if scope not in there
    ]


def _pause(channel: Channel, request: HttpRequest) -> str:
    """Pause the channel; return the text about it, or "" if it had a pause with this end.

    Raises:
        ValidationError, InvalidChannel: the end of the pause is no time, or has passed.
    """
    given = request.POST.get("until", "")
    until = aware(forms.DateTimeField().clean(given)) if given else None
    end = channel.configured().paused_until
    if channel.pause(until=until):
        return gettext("Paused.")
    is_moved = channel.configured().paused_until != end
    return gettext("Changed the end of the pause.") if is_moved else ""


def _resume(channel: Channel, request: HttpRequest) -> str:
    """Resume the channel; return the text about it, or "" if it was not paused."""
    return gettext("Resumed.") if channel.resume() else ""


def _configure(request: HttpRequest, channel: Channel, row: models.Channel) -> str:
    if row._state.adding:
        may = request.user.has_perm("pgqueue.add_channel")
        label = gettext("Configure it …")
        return to_page("channel_add", label, name=channel.name) if may else ""
    return to_row(request, "channel", channel.name, gettext("How it is configured"))


def _dead(channel: Channel) -> list[Any]:
    """Return the dead letters with the latest claims."""
    rows = Message.objects.using(settings().database).filter(
        channel=channel.name, state=State.DEAD.value, claimed_at__isnull=False
    )
    with without(rows.db, *NOT_IN_ORDER):
        light = rows.only("task", "key", "claimed_at", "failures").annotate(**last_error())
        return with_urls(light.order_by("-claimed_at")[:SHOWN])


def _too_much(channel: Channel, given: Mapping[str, Any]) -> tuple[int, bool]:
    """Count the messages that a trim would discard, up to a bound; return whether that is all."""
    stats, found, is_exact = channel.stats(), 0, True
    waiting = stats.held + stats.scheduled + stats.ready
    if given["keep"] is not None:
        found = max(0, waiting - given["keep"])
        is_exact = not stats.estimated & {state.value for state in WAITING}
    if given["older_than"] is not None:
        rows = Message.objects.using(settings().database).in_channel(channel.name)
        rows = rows.filter(Q(state__in=[state.value for state in WAITING]))
        with without(rows.db, "seqscan"):
            looked_at = rows.values("pk")[: index.REACH]
            oldest = StatementTimestamp() - exactly(given["older_than"])
            old = Message.objects.using(rows.db).filter(pk__in=looked_at, created_at__lt=oldest)
            count = old.count()
        found, is_exact = max(found, count), is_exact and waiting < index.REACH
    return found, is_exact
