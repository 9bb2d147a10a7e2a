from django.db import models
from django.utils.translation import gettext_lazy as _


class Duty(models.Model):
    """Recurring work that whichever worker finds it due does, one at a time."""

    name = models.TextField(_("name"), db_collation="C", primary_key=True)
    due_at = models.DateTimeField(_("due at"))
    ran_at = models.DateTimeField(_("ran at"), null=True)

    class Meta:
        db_table = "pgqueue_duty"
        default_permissions = ()
        verbose_name = _("duty")
        verbose_name_plural = _("duties")

    def __str__(self) -> str:
        return self.name
