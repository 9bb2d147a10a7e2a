"""A project with the apps that Django's admin needs, and pgqueue."""

from __future__ import annotations

from testproject.settings import MIDDLEWARE, TEMPLATES, database, env
from tests import server

__all__ = ["MIDDLEWARE", "TEMPLATES"]

SECRET_KEY = "of a test"
DATABASES = {
    "default": env.db("DATABASE_URL") if "DATABASE_URL" in env else database(server.PROJECT)
}
DATABASES["second"] = {**DATABASES["default"], "NAME": f"{DATABASES['default']['NAME']}_second"}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "pgqueue",
    "tests.guests",
]
USE_TZ = True
