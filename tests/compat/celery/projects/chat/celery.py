"""Chats: progress of long tasks, chords over documents, signals that set what is current."""

import os
import threading

from celery import Celery
from celery.app import app_or_default
from celery.signals import task_failure, task_postrun, task_prerun, worker_process_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chat.settings")
app = Celery("chat")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
TEAM = threading.local()
assert app_or_default() == app or app_or_default(app) is app


@worker_process_init.connect(weak=False)
def init_tracing(**kwargs): ...


@task_prerun.connect(weak=False)
def set_team(task=None, kwargs=None, **more):
    TEAM.name = (kwargs or {}).get("team")


@task_postrun.connect(weak=False)
def unset_team(**more):
    TEAM.name = None


@task_failure.connect(weak=False)
def report(sender=None, exception=None, **more): ...
