"""A forum: shared tasks, logging of its own, rate limits, periodic tasks by crontab."""

import logging.config
import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "forum.settings")
app = Celery("forum")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def configure_logging(**kwargs):
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING or {"version": 1})


@app.task(bind=True)
def debug(self):
    return f"Request: {self.request.task}"
