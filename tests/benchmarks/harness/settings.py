"""The test project, the benchmarks' own tasks, and the queues that they are compared with."""

from importlib.util import find_spec

import django

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, PGQUEUE, env
from testproject.settings import INSTALLED_APPS as OF_THE_PROJECT

DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=None)
DATABASES["default"]["CONN_HEALTH_CHECKS"] = env.bool("CONN_HEALTH_CHECKS", default=True)

if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}}
else:
    EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"

# Django's default writes two lines a task, and django-absurd one a step, which takes longer than
# the smallest tasks.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {
        name: {"level": env.str("TASKS_LOG_LEVEL", default="WARNING")}
        for name in ("django.tasks", "django_tasks", "django_absurd")
    },
}

INSTALLED_APPS = [*OF_THE_PROJECT, "tests.benchmarks.harness", "django_tasks_db"]
TASKS = {
    "default": {"BACKEND": "pgqueue.backend.PostgresBackend"},
    "tasks_db": {"BACKEND": "django_tasks_db.DatabaseBackend"},
    # Only named where it isn't installed: nothing is enqueued there.
    "ox": {"BACKEND": "pgqueue.backend.DummyBackend"},
}
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]
if find_spec("django_ox"):
    INSTALLED_APPS += ["django_ox"]
    TASKS["ox"] = {"BACKEND": "django_ox.backend.OxBackend"}
if find_spec("django_absurd"):
    INSTALLED_APPS += ["django_absurd"]
    TASKS["absurd"] = {"BACKEND": "django_absurd.backends.AbsurdBackend"}

PGQUEUE["FEED"] = env.str("PGQUEUE_FEED", default="poll")
PGQUEUE["REPLICATION_SLOT"] = PGQUEUE["PUBLICATION"] = "pgqueue_bench"
PGQUEUE["WEBHOOKS"] = {"ALLOW_PRIVATE": ["127.0.0.0/8"]}
if "PGQUEUE_RETENTION" in env:
    PGQUEUE["RETENTION"] = env.float("PGQUEUE_RETENTION")
if "PGQUEUE_EVENT_RETENTION" in env:
    PGQUEUE["EVENT_RETENTION"] = env.float("PGQUEUE_EVENT_RETENTION")
