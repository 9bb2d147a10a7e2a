"""Findings of scanners: a base class that hands on the user, groups, and a lot of signals."""

import os
from logging.config import dictConfig

from celery import Celery, Task
from celery.signals import after_setup_logger, setup_logging, task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "findings.settings")
USER = {"name": "admin"}


class UserTask(Task):
    """Hands on who has called, as a keyword."""

    def apply_async(self, args=None, kwargs=None, **options):
        headers = {**(options.pop("headers", None) or {}), "findings_user": USER["name"]}
        return super().apply_async(args, kwargs, headers=headers, **options)

    def __call__(self, *args, **kwargs):
        if not args and not kwargs:
            return super().__call__()
        return super().__call__(*args, **kwargs)


app = Celery("findings", task_cls=UserTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(list)


@setup_logging.connect
def config_loggers(*args, **kwags):
    from django.conf import settings

    dictConfig(settings.LOGGING or {"version": 1})


@after_setup_logger.connect
def more(logger=None, **kwargs): ...


@task_prerun.connect
def count(task_id=None, task=None, **kwargs): ...
