"""A store: an app with a class of tasks of its own, schedules that look at times, retries."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "store.settings")
app = Celery("store", task_cls="store.base:ReplicaTask")


@setup_logging.connect
def setup_celery_logging(loglevel=None, **kwargs):
    """Leave the log to Django."""


app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
