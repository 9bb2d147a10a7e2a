from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from pgqueue import webhooks
from pgqueue.admin.base import PAUSED, RESUMED, DoneText, QueueAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.admin.subscription import (
    RULE,
    SHOWN,
    NewSubscriptionForm,
    SubscriptionAdmin,
    SubscriptionForm,
    checking,
    without_sql,
)
from pgqueue.conf import settings
from pgqueue.exceptions import PGQueueError
from pgqueue.models import Subscription, Webhook
from pgqueue.options.records import in_section
from pgqueue.options.retries import load_backoff
from pgqueue.options.webhook_options import (
    CHANNEL,
    OF_SUBSCRIPTIONS,
    OPTIONS,
    POST,
    as_secret,
    new_secret,
)
from pgqueue.options.webhook_urls import as_url
from pgqueue.values.escaping import logger_of
from pgqueue.values.names import as_channel

logger = logger_of(__name__)

SENT = in_section(POST, "post")
MESSAGE = in_section(OF_SUBSCRIPTIONS, "messages", "expiry")
NEW: Any = (
    (None, {"fields": ("name", "url", *in_section(OPTIONS, "secret", "filter", "start"))}),
    (_("Post"), {"fields": SENT}),
    (_("Messages"), {"fields": MESSAGE}),
)
THERE: Any = (
    (None, {"fields": ("name", "url", "enabled", *RULE)}),
    (_("Post"), {"fields": SENT}),
    (_("Messages"), {"fields": MESSAGE}),
    (_("State"), {"fields": ("state", "failing_since", "failures", "deliveries", "created_at")}),
)
NOT_EDITED = ("name", *THERE[-1][1]["fields"])


@checking(POST)
class WebhookForm(SubscriptionForm):
    """Refuses a webhook with an invalid request or a forbidden URL."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "channel" in self.fields:
            self.fields["channel"].help_text = _("Empty: %s.") % CHANNEL
        if "max_attempts" in self.fields:
            self.fields["max_attempts"].required = False
            self.fields["max_attempts"].help_text = _("Empty: as PGQUEUE says.")

    def clean_url(self) -> str:
        allowed = settings().webhooks.allow_private
        return str(self.checked("url", lambda value: as_url(value, allowed)))

    def clean_secret(self) -> str:
        return str(self.checked("secret", lambda value: as_secret(value or new_secret())))

    def clean_channel(self) -> str:
        return str(self.checked("channel", lambda value: as_channel(value or CHANNEL)))

    def clean_max_attempts(self) -> int:
        if self.cleaned_data["max_attempts"] is None:
            return settings().webhooks.max_attempts
        return super().clean_max_attempts()


class NewWebhookForm(WebhookForm, NewSubscriptionForm):
    """Also has a field for the position where the webhook begins."""

    def clean_name(self) -> str:
        name = super().clean_name()
        if name.startswith("{"):
            raise ValidationError(
                gettext("It must not begin with a brace: it is the key of its messages.")
            )
        return name


@admin.register(Webhook)
class WebhookAdmin(SubscriptionAdmin):
    """The webhooks, which post events to URLs; a new secret is shown once."""

    actions = ("pause", "resume", "send_test", "replay", "rotate")  # type: ignore[assignment]
    list_display = ("name", "shown_url", "shown_topics", "state", "failing_since", "failures")  # type: ignore[assignment]
    list_filter = ("enabled", "paused")  # type: ignore[assignment]
    search_fields = ("name",)  # type: ignore[assignment]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return QueueAdmin.get_queryset(self, request)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = WebhookForm if obj else NewWebhookForm
        return QueueAdmin.get_form(self, request, obj, change, form=form, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Otherwise the form begins with the default of subscriptions.
        given = super().get_changeform_initial_data(request)
        return {"max_attempts": settings().webhooks.max_attempts, **given}

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return NEW if self.has_sql_permission(request) else without_sql(NEW)
        if self.has_change_permission(request, obj):
            return THERE
        # Users who may not change a webhook do not see its credentials.
        (_title, post), *rest = THERE[1:]
        shown = ["header_names" if name == "headers" else name for name in post["fields"]]
        wanted = [{"url": "shown_url", **SHOWN}.get(name, name) for name in THERE[0][1]["fields"]]
        return ((None, {"fields": wanted}), (_("Post"), {"fields": shown}), *rest)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        sql = () if self.has_sql_permission(request) else ("predicate",)
        if obj is None:
            return sql
        return (*NOT_EDITED, "header_names", "shown_url", *SHOWN.values(), *sql)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return QueueAdmin.has_delete_permission(self, request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        # The subscription is deleted with its webhook, also without the permission to delete it.
        found, counts, needed, protected = super().get_deleted_objects(objs, request)
        return found, counts, needed - {Subscription._meta.verbose_name}, protected

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["pgqueue.operate_webhook"]) or self.has_change_permission(
            request
        )

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.operate_message")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        database = settings().database
        if not change:
            created_with = {"url", *OPTIONS}
            given = {
                name: value for name, value in form.cleaned_data.items() if name in created_with
            }
            if given["backoff"] is not None:
                given["backoff"] = load_backoff(given["backoff"])
            url = given.pop("url")
            created = webhooks.create(obj.name, url, database=database, **given)
            obj.position, obj.secret = created.position, created.secret
            return
        changed = set(form.changed_data) - {"enabled"}
        if changed:
            obj.save(using=database, update_fields=changed)
        if "enabled" in form.changed_data:
            switch = webhooks.enable if obj.enabled else webhooks.disable
            switch(obj.name, database=database)

    def response_add(self, request: HttpRequest, obj: Any, *args: Any, **kwargs: Any) -> Any:
        return self._tell(request, [(obj.name, obj.secret)])

    @admin.display(description=_("URL"))
    def shown_url(self, webhook: Webhook) -> str:
        """Return the URL without credentials."""
        return webhook.origin

    @admin.display(description=_("headers"))
    def header_names(self, webhook: Webhook) -> str:
        return ", ".join(webhook.headers) or NOTHING

    @admin.display(description=_("state"))
    def state(self, subscription: Any) -> str:
        """Return whether the webhook posts; if not, the reason."""
        if not subscription.enabled:
            why = subscription.error
            return gettext("disabled: %s") % why if why else gettext("disabled")
        return super().state(subscription)

    @admin.display(description=_("deliveries"))
    def deliveries(self, webhook: Webhook) -> str:
        """Return links to the webhook's live and ended messages."""
        own = {"channel": webhook.channel, "q": webhook.name}
        links = [
            (_("messages"), "message", own),
            (_("dead letters"), "message", {**own, "state": "dead"}),
            (_("history"), "history", own),
        ]
        return format_html_join(
            " · ",
            '<a href="{}?{}">{}</a>',
            (
                (reverse(f"admin:pgqueue_{model}_changelist"), urlencode(query), label)
                for label, model, query in links
            ),
        )

    @admin.action(permissions=["operate"], description=_("Pause: post nothing, keep everything"))
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, webhooks.pause, PAUSED)

    @admin.action(permissions=["operate"], description=_("Resume: post what waits, at once"))
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, webhooks.resume, RESUMED)

    @admin.action(permissions=["operate"], description=_("Send a test event"))
    def send_test(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for webhook, result in self.each(request, queryset, webhooks.send_test):
            self.log_change(request, webhook, gettext("Sent a test event."))
            url = reverse("admin:pgqueue_message_change", args=[result.id])
            link = format_html('<a href="{}">#{}</a>', url, result.id)
            said = format_html(gettext("{}: the test event is the message {}."), webhook.name, link)
            self.message_user(request, said)

    @admin.action(permissions=["replay"], description=_("Replay dead letters"))
    def replay(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for webhook, count in self.each(request, queryset, webhooks.replay):
            told = {"webhook": webhook, "count": count}
            logged = ngettext(
                "Replayed %(count)d dead letter.", "Replayed %(count)d dead letters.", count
            )
            self.log_change(request, webhook, logged % told)
            said = ngettext(
                "%(webhook)s: %(count)d dead letter replayed.",
                "%(webhook)s: %(count)d dead letters replayed.",
                count,
            )
            self.message_user(request, said % told)

    @admin.action(permissions=["change"], description=_("Rotate the secret: both sign for a day"))
    def rotate(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        made = []
        for webhook, secret in self.each(request, queryset, webhooks.rotate):
            self.log_change(request, webhook, gettext("Rotated its secret."))
            made.append((webhook.name, secret))
        return self._tell(request, made) if made else None

    def _tell(self, request: HttpRequest, made: Sequence[tuple[str, str]]) -> HttpResponse:
        """Show new secrets only on this page."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("Give this to the receiver: it is shown only now"),
            "opts": self.opts,
            "made": made,
        }
        return TemplateResponse(request, "admin/pgqueue/webhook/secret.html", context)

    def _switch(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        verb: Callable[..., Any],
        done: DoneText,
    ) -> None:
        changed = [webhook for webhook, _result in self.each(request, queryset, verb)]
        self.report(request, changed, done)

    def in_words(self, row: Any, error: Exception) -> str:
        """Return an error of an operation as the user sees it; raise one that is a fault."""
        if isinstance(error, PGQueueError):
            return f"{row.name}: {error}"
        if isinstance(error, DatabaseError | psycopg.Error):
            logger.exception("The action on the webhook %s failed", row.name)
            said = gettext("The database has failed. The server's log has the error.")
            return f"{row.name}: {said}"
        raise error
