"""What `manage.py check` says of Celery's settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Info, register
from django.core.exceptions import ImproperlyConfigured

from pgqueue.compat.celery import current
from pgqueue.compat.celery.conf import NAMESPACE, TAKEN, Conf, name_of_old, why_needless
from pgqueue.spelling import suggestion


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
            text = f"{conf.spelled(name)} is no setting of Celery's. {_meant(conf, name)}"
            found.append(Info(text.strip(), id="pgqueue.I102"))
    return found


def _meant(conf: Conf, name: str) -> str:
    """Return a sentence that names what an unknown setting may be."""
    now = name_of_old(f"{NAMESPACE}_{name}".upper())
    if now and now != name and (now in TAKEN or why_needless(now)):
        return f"Its name is {conf.spelled(now)} today."
    return suggestion(name, TAKEN) or ""
