"""What the settings of the two projects share."""

from __future__ import annotations

from typing import Any

import environ

env = environ.Env()

DATABASES: dict[str, Any] = {"default": env.db("DATABASE_URL")}
SECRET_KEY = "only-for-this-test"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

SHARED_APPS = ["django.contrib.contenttypes", "pgqueue"]
TENANT_APPS = ["tests.tenants.notes"]
INSTALLED_APPS = [*SHARED_APPS, *TENANT_APPS]
