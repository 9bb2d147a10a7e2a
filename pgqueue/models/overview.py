from django.utils.translation import gettext_lazy as _

from pgqueue.models.worker import Worker


class Overview(Worker):
    """No table: what the admin's overview page is listed by, and its permission."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = _("overview")
