"""The checks of Celery's settings in `manage.py check`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Info, register
from django.core.exceptions import ImproperlyConfigured

from pgqueue.compat.celery import current, signals
from pgqueue.compat.celery.conf import NAMES, NAMESPACE, TAKEN, Conf, name_of_old, why_needless
from pgqueue.values.error_words import suggestion
from pgqueue.values.names import AT_START

DEFAULT_SCHEDULER = "celery.beat.PersistentScheduler"


@register("pgqueue")
def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report the settings that have no effect, are unknown, or are invalid."""
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


@register("pgqueue")
def check_signals(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report the signals that have receivers, and are never sent."""
    return [
        Info(f"The signal {each.name} is never sent: {each.instead}.", id="pgqueue.I103")
        for each in vars(signals).values()
        if isinstance(each, signals.Unsent) and each.receivers
    ]


@register("pgqueue", AT_START)
def check_scheduler(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a beat scheduler whose schedules no worker reads."""
    conf = current.conf()
    scheduler = str(conf.get("beat_scheduler") or DEFAULT_SCHEDULER)
    if scheduler.replace(":", ".") == DEFAULT_SCHEDULER:
        return []
    text = f"{conf.spelled('beat_scheduler')} = {scheduler!r}: no worker reads its schedules."
    instead = instead_of(scheduler)
    hint = f"{instead[0].upper()}{instead[1:]}."
    return [Error(text, hint=hint, id="pgqueue.E102")]


def instead_of(scheduler: str) -> str:
    """Return the advice for a beat scheduler."""
    if "django_celery_beat" in scheduler:
        what = "move its schedules by `manage.py pgqueue_import --from celery-beat`"
    else:
        what = "add its schedules to beat_schedule, or in the admin"
    return f"{what}, and remove the setting"


def _meant(conf: Conf, name: str) -> str:
    """Return a sentence that names the setting that was probably meant."""
    now = name_of_old(f"{NAMESPACE}_{name}".upper())
    if now in NAMES and now != name:
        return f"Its name is {conf.spelled(now)} today."
    return suggestion(name, TAKEN) or ""
