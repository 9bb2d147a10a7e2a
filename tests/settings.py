"""The test project's settings, and what only tests need."""

from typing import Any

import django

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS, database, env
from testproject.settings import PGQUEUE as OF_THE_PROJECT
from tests import server

DEBUG = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DATABASES = {"default": database(server.PROJECT)}
# A second database, for everything that must not assume `default`.
DATABASES["second"] = {**DATABASES["default"], "NAME": DATABASES["default"]["NAME"] + "_second"}

TASKS = {
    "default": {"BACKEND": "pgqueue.backend.PostgresBackend", "QUEUES": ["default", "mail"]},
    "patient": {
        "BACKEND": "pgqueue.backend.PostgresBackend",
        "QUEUES": [],
        "OPTIONS": {"MAX_ATTEMPTS": 3, "BACKOFF": [0]},
    },
    "second": {
        "BACKEND": "pgqueue.backend.PostgresBackend",
        "OPTIONS": {"DATABASE": "second", "ENQUEUE_ON_COMMIT": True},
    },
    "immediate": {"BACKEND": "pgqueue.backend.ImmediateBackend"},
    "dummy": {"BACKEND": "pgqueue.backend.DummyBackend", "QUEUES": []},
    "django-tasks-db": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []},
}
# Their queues, whose work is moved over and whose settings are changed.
INSTALLED_APPS = [*INSTALLED_APPS, "django_tasks_db", "procrastinate.contrib.django"]
if django.VERSION < (6, 0):
    INSTALLED_APPS = [*INSTALLED_APPS, "django_tasks"]

# What tests tell the workers that they start, through the environment.
PGQUEUE: dict[str, Any] = {
    name: env.float(f"PGQUEUE_{name}")
    for name in ("LEASE", "POLL_INTERVAL", "GRACE")
    if f"PGQUEUE_{name}" in env
}
PGQUEUE |= {
    name: env.str(f"PGQUEUE_{name}")
    for name in ("FEED", "REPLICATION_SLOT", "PUBLICATION")
    if f"PGQUEUE_{name}" in env
}
PGQUEUE["ENCRYPTION_KEYS"] = env.list(
    "PGQUEUE_ENCRYPTION_KEYS", default=["dGhlIGtleSBvZiB0aGUgdGVzdHMsIDMyIGJ5dGVzISE="]
)
PGQUEUE["WEBHOOKS"] = OF_THE_PROJECT["WEBHOOKS"]
if "PGQUEUE_SCHEDULES" in env:
    PGQUEUE["SCHEDULES"] = env.json("PGQUEUE_SCHEDULES")
DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=0)
