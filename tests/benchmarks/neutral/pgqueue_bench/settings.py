"""A project that has nothing but the queue."""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

_url = urlsplit(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(_url.path.lstrip("/")),
        "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""),
        "HOST": unquote(_url.hostname or ""),
        "PORT": _url.port or "",
        "OPTIONS": dict(parse_qsl(_url.query)),
        "CONN_MAX_AGE": None,
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "pgqueue"]
USE_TZ = True
SECRET_KEY = "of a benchmark"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
