"""Where tests send webhooks to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import path

from pgqueue import receive_webhook
from tests.inbox.handlers import book, takes_nothing
from tests.inbox.test_signatures import OTHER, SECRET

rotating = [SECRET]
"""What the sender's secrets are now."""


def of_now(request: HttpRequest) -> list[str]:
    """Return the secrets that hold."""
    return rotating


def by_type(payload: dict[str, Any]) -> Any:
    """Return who handles what; None: nobody."""
    return {"order": book, "event": "shop.event"}.get(payload["type"])


def as_signal(payload: dict[str, Any]) -> Any:
    """Return the signal that a body is; None: it is none."""
    if payload["type"] == "other":
        return None
    signal = {"name": "go", "dedupe_key": f"order:{payload['order']}"}
    return signal | payload.get("more", {})


def no_signal(payload: dict[str, Any]) -> Any:
    """Return an invalid signal."""
    return "go"


urlpatterns = [
    path("signal", receive_webhook(signal=as_signal, secrets=SECRET, source="shop")),
    path("nonsense", receive_webhook(signal=no_signal, secrets=SECRET, source="shop")),
    path("task", receive_webhook(book, secrets=SECRET, source="shop")),
    path("topic", receive_webhook("shop.paid", secrets=SECRET, source="shop", key="all")),
    path("type", receive_webhook(secrets=SECRET, source="shop")),
    path(
        "chosen",
        receive_webhook(by_type, secrets=SECRET, source="shop", key=lambda sent: sent.get("key")),
    ),
    path("small", receive_webhook(book, secrets=SECRET, source="shop", max_bytes=1000)),
    path("rotating", receive_webhook(book, secrets=of_now, source="shop")),
    path("both", receive_webhook(book, secrets=[OTHER, SECRET], source="shop")),
    path("wrong", receive_webhook(takes_nothing, secrets=SECRET, source="shop")),
    path("patient", receive_webhook(book, secrets=SECRET, source="shop", tolerance=3600)),
]
