"""What the suite's workers and producers run with; told through the environment."""

import logging

from testproject.settings import DATABASES as OF_THE_PROJECT
from testproject.settings import SECRET_KEY, env

__all__ = ["SECRET_KEY"]

DATABASES = OF_THE_PROJECT
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "pgqueue"]
INSTALLED_APPS += env.list("CHAOS_APPS", default=[])
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PGQUEUE = {
    "LEASE": env.float("PGQUEUE_LEASE", default=2.0),
    "MAX_LOST": env.int("PGQUEUE_MAX_LOST", default=100),
    "FEED": env.str("PGQUEUE_FEED", default="poll"),
    "WEBHOOKS": {
        "ALLOW_PRIVATE": ["127.0.0.0/8"],
        "PAUSE_AFTER": env.float("PGQUEUE_PAUSE_AFTER", default=86_400),
    },
}


def is_no_failed_run(record: logging.LogRecord) -> bool:
    """Whether to log a record; tasks that fail as they are meant to would fill the log."""
    return "on attempt" not in record.msg


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"faults": {"()": lambda: is_no_failed_run}},
    "formatters": {"timed": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "log": {"class": "logging.StreamHandler", "filters": ["faults"], "formatter": "timed"}
    },
    "loggers": {"pgqueue": {"handlers": ["log"], "level": "INFO"}},
}
