"""The view for Prometheus's scrapes, and its authorization."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Any

import psycopg
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, HttpResponseNotAllowed
from django.views.decorators.cache import never_cache

from pgqueue.conf import settings
from pgqueue.database.migration_check import NotMigrated

PERMISSION = "pgqueue.view_message"


@never_cache
def view(request: HttpRequest, database: str | None = None) -> HttpResponse:
    """Return the figures of the whole queue, in the format that Prometheus asks for.

    A request needs `PGQUEUE["METRICS_TOKEN"]`, as a bearer token or as a password with any name, or
    a session of staff with the permission to view messages.

    Args:
        database: the alias of the queue's database; None: the one of `PGQUEUE`.

    Raises:
        ImportError: prometheus_client is not installed.
    """
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not (_knows_token(request) or _is_staff(request)):
        return _denied()
    try:
        # Imported here, as only this view needs prometheus_client.
        from pgqueue.metrics import exposition
    except ImportError as error:
        raise ImportError(
            "pgqueue.metrics.view needs prometheus_client: pip install 'pgqueue[prometheus]'."
        ) from error
    try:
        text, kind = exposition.of_the_queue(
            database or settings().database, accept=request.headers.get("Accept", "")
        )
    except (Error, psycopg.Error, NotMigrated) as error:
        return HttpResponse(f"{error}\n", status=503, content_type="text/plain; charset=utf-8")
    return HttpResponse(text, content_type=kind)


def _denied() -> HttpResponse:
    if not settings().metrics_token:
        return HttpResponseForbidden(
            "PGQUEUE['METRICS_TOKEN'] is not set, so only staff may see the figures."
        )
    return HttpResponse(status=401, headers={"WWW-Authenticate": 'Bearer realm="pgqueue"'})


def _knows_token(request: HttpRequest) -> bool:
    token = settings().metrics_token
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        given = _password(given)
    elif scheme.lower() != "bearer":
        return False
    return bool(token) and hmac.compare_digest(given.strip().encode(), token.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _is_staff(request: HttpRequest) -> bool:
    user: Any = getattr(request, "user", None)
    return bool(user and user.is_active and user.is_staff and user.has_perm(PERMISSION))
