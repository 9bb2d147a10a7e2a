from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

from django.db import connections, models, router
from django.db.models import Q
from django.db.models.base import ModelBase
from django.utils.translation import gettext_lazy as _

from pgqueue.conf import settings
from pgqueue.engine.sequence import head
from pgqueue.exceptions import InvalidWebhook
from pgqueue.models.fields import InstantField, JSONField
from pgqueue.models.subscription import OF_WORKERS, Subscription
from pgqueue.options.webhook_options import POST, new_secret
from pgqueue.options.webhook_urls import as_url
from pgqueue.values.instants import aware

DELIVER = "pgqueue.webhooks.delivering.deliver"
DELIVER_BATCH = "pgqueue.webhooks.delivering.deliver_batch"
KEPT_SECRETS = 5
"""That were rotated, and still sign."""


class Webhook(Subscription):
    """A subscription whose messages are posted to a URL.

    Its messages have its name as their key, so that webhooks take turns on their channel.
    """

    of_workers: ClassVar[frozenset[str]] = frozenset(OF_WORKERS | {"failures", "failing_since"})

    # The migration's own constraint: the dispatch deletes a subscription that expires by SQL.
    subscription = models.OneToOneField(
        Subscription,
        on_delete=models.CASCADE,
        parent_link=True,
        primary_key=True,
        db_constraint=False,
        related_name="webhook",
    )
    url = models.TextField(_("URL"), help_text=_("https://example.com/hooks"))
    secret = models.TextField(
        _("secret"),
        blank=True,
        default=new_secret,
        help_text=POST["secret"].help,
    )
    rotated = JSONField(
        _("rotated"),
        db_default=[],
        default=list,
        editable=False,
        help_text=_("Secrets before this one, and until when posts are signed with them, too."),
    )
    headers = JSONField(
        _("headers"),
        db_default={},
        default=dict,
        blank=True,
        help_text=POST["headers"].help,
    )
    enabled = models.BooleanField(
        _("enabled"),
        db_default=True,
        default=True,
        help_text=_("If not, nothing is posted; what happens meanwhile is skipped."),
    )
    cloudevents = models.BooleanField(
        _("CloudEvents"), db_default=False, default=False, help_text=POST["cloudevents"].help
    )
    gzip = models.BooleanField(
        _("gzip"), db_default=True, default=True, help_text=POST["gzip"].help
    )
    serializer = models.TextField(
        _("serializer"),
        blank=True,
        db_default="",
        default="",
        help_text=POST["serializer"].help,
    )
    timeout = models.DurationField(
        _("timeout"),
        null=True,
        blank=True,
        help_text=POST["timeout"].help,
    )
    backoff = JSONField(
        _("backoff"),
        null=True,
        blank=True,
        help_text=POST["backoff"].help,
    )
    salt = models.UUIDField(
        _("salt"), default=uuid4, editable=False, help_text=_("A part of each webhook-id.")
    )

    failures = models.IntegerField(
        _("failures"),
        db_default=0,
        default=0,
        editable=False,
        help_text=_("Noted since the last success: at most one a second by each worker."),
    )
    failing_since = InstantField(_("failing since"), null=True, editable=False)

    objects: ClassVar[models.Manager[Webhook]] = models.Manager()  # type: ignore[assignment]

    class Meta:
        db_table = "pgqueue_webhook"
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        permissions = [("operate_webhook", "Can rotate, resume and test webhooks")]
        constraints = [
            models.CheckConstraint(
                condition=~Q(url="") & ~Q(secret=""), name="pgqueue_webhook_texts"
            )
        ]

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Save it and its subscription, checked.

        One that is not enabled makes no messages. One that is enabled again begins at the end of
        the log, as by `pgqueue.webhooks.enable()`. In a row that is there, what workers write is
        left.

        Raises:
            InvalidWebhook: an option is invalid.
            InvalidFilter, InvalidSubscription: as for a subscription.
        """
        self.check_options()
        self.key = self.name
        self.task = DELIVER if self.batch is None else DELIVER_BATCH
        if not self.enabled:
            self.paused = True
        if force_insert:
            # By its name alone, a subscription that is there already would become a webhook.
            force_insert = (Subscription,)
        if update_fields is not None:
            update_fields = set(update_fields)
            update_fields |= {"task"} if "batch" in update_fields else set()
            update_fields |= {"paused"} if "enabled" in update_fields else set()
        using = using or router.db_for_write(type(self), instance=self)
        if self._is_enabled_again(using, update_fields):
            update_fields = set(update_fields or self._fields_to_update()) | self._begin_anew(using)
        super().save(
            force_insert=force_insert,
            force_update=force_update,
            using=using,
            update_fields=update_fields,
        )

    def _is_enabled_again(self, using: str, update_fields: Iterable[str] | None) -> bool:
        """Return whether a save enables a webhook that is not enabled yet."""
        if not self.enabled or self._state.adding:
            return False
        if update_fields is not None and "enabled" not in update_fields:
            return False
        return Webhook.objects.using(using).filter(pk=self.pk, enabled=False).exists()

    def _begin_anew(self, using: str) -> set[str]:
        """Let it skip the events until now, and forget its failures; return the changed fields."""
        anew = {"paused": False, "error": "", "failures": 0, "failing_since": None}
        # It may still follow the log, where no dispatch has run since it was disabled.
        anew |= {"follows": False, "position": head(connections[using])}
        for name, value in anew.items():
            setattr(self, name, value)
        return {*anew}

    def _check_is_enabled(self, using: str) -> None:
        """Do nothing: `enabled` itself tells whether it may be resumed."""

    @property
    def origin(self) -> str:
        """Whom it posts to, without what may let one in: https://example.com/…"""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{re.split('[/?#]', rest, maxsplit=1)[0]}/…"

    def check_options(self) -> None:
        """Refuse an address that no post could reach.

        Raises:
            InvalidWebhook: names the option.
        """
        options = settings().webhooks
        if self.secret == "":
            self.secret = new_secret()
        checks: dict[str, Callable[[Any], Any]] = {
            "name": _name,
            "url": lambda url: as_url(url, options.allow_private),
            **{name: each.row_check for name, each in POST.items() if each.row_check},
        }
        for name, check in checks.items():
            try:
                check(getattr(self, name))
            except (TypeError, ValueError) as error:
                # Without the value: a URL may contain a secret, too.
                raise InvalidWebhook(f"{name}: {error}") from error

    def rotate(self, secret: str, *, keep_old_for: timedelta, now: datetime) -> None:
        """Have posts signed with another secret, and with those before it for a while.

        Args:
            now: the time by the database's clock, with its zone.
        """
        kept = [*self.signing_secrets(now)[1:]]
        if keep_old_for > timedelta():
            kept.insert(0, self.secret)
        until = {each["secret"]: each["until"] for each in self.rotated}
        until[self.secret] = (now + keep_old_for).isoformat()
        self.rotated = [
            {"secret": each, "until": until[each]} for each in kept[:KEPT_SECRETS] if each != secret
        ]
        self.secret = secret

    def signing_secrets(self, now: datetime) -> list[str]:
        """Return the secrets that sign posts now, the newest first."""
        rotated = [
            each["secret"]
            for each in self.rotated
            if aware(datetime.fromisoformat(each["until"])) > now
        ]
        return [self.secret, *rotated]


def _name(value: str) -> str:
    if value.startswith("{"):
        raise ValueError("it must not begin with a brace: it is the key of its messages.")
    return value
