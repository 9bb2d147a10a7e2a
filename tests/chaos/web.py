"""The settings of a web server that streams the log, its one view, and the server's application."""

from __future__ import annotations

import os

from django.http import HttpRequest, HttpResponse
from django.urls import path

from tests.chaos.settings import (
    DATABASES,
    DEFAULT_AUTO_FIELD,
    INSTALLED_APPS,
    LOGGING,
    PGQUEUE,
    SECRET_KEY,
    USE_TZ,
)

__all__ = [
    "DATABASES",
    "DEFAULT_AUTO_FIELD",
    "INSTALLED_APPS",
    "LOGGING",
    "PGQUEUE",
    "SECRET_KEY",
    "USE_TZ",
]

ROOT_URLCONF = "tests.chaos.web"
ALLOWED_HOSTS = ["127.0.0.1"]


def blank(request: HttpRequest) -> HttpResponse:
    """Return a page to run a script in."""
    return HttpResponse("")


def __getattr__(name: str) -> object:
    # As settings, this is imported before Django is set up.
    if name == "urlpatterns":
        from pgqueue.sse import event_stream

        return [
            path("", blank),
            path("events/", event_stream(authorize=lambda request, wanted: True, heartbeat=1)),
        ]
    if name == "application":
        from django.core.asgi import get_asgi_application

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", __name__)
        return get_asgi_application()
    raise AttributeError(name)
