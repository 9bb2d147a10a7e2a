"""What `manage.py check` says of Celery's settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Info, register
from django.core.exceptions import ImproperlyConfigured

from pgqueue.compat.celery import current
from pgqueue.compat.celery.conf import TAKEN, why_needless
from pgqueue.spelling import hint


@register("pgqueue")
def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Say which setting has no effect, is unknown, or can't be."""
    conf = current.conf()
    found: list[CheckMessage] = []
    for name in sorted(conf.given()):
        if name in TAKEN:
            try:
                getattr(conf, name)
            except ImproperlyConfigured as error:
                found.append(Error(str(error), id="pgqueue.E101"))
        elif why := why_needless(name):
            found.append(Info(f"{conf.spelled(name)} has no effect: {why}.", id="pgqueue.I101"))
        else:
            found.append(
                Info(
                    f"{conf.spelled(name)} is no setting of Celery's. {hint(name, TAKEN)}",
                    id="pgqueue.I102",
                )
            )
    return found
