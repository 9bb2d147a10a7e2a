from django.db import models
from django.utils.translation import gettext_lazy as _

from pgqueue.models.readable import InstantField


class Duty(models.Model):
    """Recurring work that whichever worker finds it due does, one at a time."""

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    due_at = InstantField(_("due at"))
    ran_at = InstantField(_("ran at"), null=True)
    upto = InstantField(
        _("up to"),
        null=True,
        help_text=_("Of the duty “retention”: nothing younger than this and a day is removed."),
    )
    failing_since = InstantField(
        _("failing since"), null=True, help_text=_("When it first failed since it was last done.")
    )

    class Meta:
        db_table = "pgqueue_duty"
        default_permissions = ()
        verbose_name = _("duty")
        verbose_name_plural = _("duties")

    def __str__(self) -> str:
        return self.name
