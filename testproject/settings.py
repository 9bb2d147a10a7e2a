"""The project that docs, demo and tests run on."""

from pathlib import Path
from typing import Any

import django
import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()


def database(project: Path = BASE_DIR) -> dict[str, Any]:
    """Return what DATABASE_URL says, or else where the project's embedded server is found.

    Settings only name that server: `manage.py` and `tests/conftest.py` start it.
    """
    # A worker's threads keep their connections, as web servers do.
    kept = {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    if "DATABASE_URL" in env:
        return {**kept, **env.db("DATABASE_URL")}
    from pgqueue import embedded

    server = embedded.address(project=project)
    return {
        **kept,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": server["dbname"],
        "USER": server["user"],
        "HOST": server["host"],
        "PORT": server["port"],
    }


DATABASES = {"default": database()}

SECRET_KEY = "only-for-this-test-project"  # noqa: S105
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "pgqueue",
    "testproject.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

ROOT_URLCONF = "testproject.urls"
ASGI_APPLICATION = "testproject.asgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The model that the shop's agent asks: the demo starts one, and says where.
MODEL_URL = env.str("MODEL_URL", default="http://127.0.0.1:8080/")

# Where the demo's mail goes: it starts an SMTP server of its own and says where.
MAIL_SERVER = {
    "host": env.str("EMAIL_HOST", default="127.0.0.1"),
    "port": env.int("EMAIL_PORT", default=25),
}
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "OPTIONS": MAIL_SERVER,
        }
    }
else:
    EMAIL_HOST, EMAIL_PORT = MAIL_SERVER.values()
DEFAULT_FROM_EMAIL = "shop@example.com"

# A shorter lease lets the demo's second worker take over within seconds.
PGQUEUE: dict[str, Any] = {
    "LEASE": env.float("PGQUEUE_LEASE", default=30.0),
    # The demo's partner is on loopback.
    "WEBHOOKS": {"ALLOW_PRIVATE": ["127.0.0.0/8"], "BACKOFF": [0.1, 1]},
}
