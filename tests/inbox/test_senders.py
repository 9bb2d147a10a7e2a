"""One view that receives the webhooks of several senders, each with its own secret and source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from pgqueue import InvalidMessage, receive_webhook
from pgqueue.models import Dedupe, EventInbox, Message
from tests.inbox.handlers import book
from tests.inbox.test_signatures import OTHER, SECRET
from tests.inbox.test_webhooks import headers

SECRETS = {"shop": SECRET, "erp": OTHER}
ORDER = json.dumps({"type": "order", "order": 7}).encode()


def sender(request: HttpRequest) -> str:
    return request.GET["from"]


def secrets_of(request: HttpRequest) -> str:
    return SECRETS[sender(request)]


def post(to: Any, by: str, *, secret: str | None = None, **options: Any) -> int:
    """Send a webhook with the same id to a view of all senders; return the status."""
    view = receive_webhook(to, **{"secrets": secrets_of, "source": sender, **options})
    signed = headers(ORDER, secret=secret or SECRETS[by])
    request = RequestFactory().post(
        f"/?from={by}", ORDER, content_type="application/json", headers=signed
    )
    return view(request).status_code


def test_an_id_of_one_sender_hides_none_of_another() -> None:
    assert [post(book, by) for by in ("shop", "erp", "shop")] == [204, 204, 204]

    found = [each.metadata["external"] for each in Message.objects.order_by("id")]
    assert found == [{"id": "m-1", "source": "shop"}, {"id": "m-1", "source": "erp"}]
    assert Dedupe.objects.count() == 2


def test_each_sender_publishes_behind_its_own_source() -> None:
    assert [post(None, by) for by in ("shop", "erp")] == [204, 204]

    topics = EventInbox.objects.order_by("id").values_list("topic", flat=True)
    assert list(topics) == ["shop.order", "erp.order"]


def test_a_signal_of_each_sender_counts() -> None:
    def as_signal(body: Any) -> dict[str, str]:
        return {"name": "paid", "dedupe_key": "order:7", "if_ended": "ignore"}

    assert [post(None, by, signal=as_signal) for by in ("shop", "erp")] == [204, 204]

    assert Dedupe.objects.count() == 2


def test_a_sender_is_asked_for_once_the_signature_is_verified() -> None:
    def fail(request: HttpRequest) -> str:
        raise AssertionError

    assert post(book, "shop", secret=OTHER, source=fail) == 401


@pytest.mark.parametrize("source", [None, 5, "a:b"])
def test_an_invalid_source_is_an_error_of_the_function(source: Any) -> None:
    with pytest.raises(InvalidMessage, match="source="):
        post(None, "shop", source=lambda request: source)

    assert not EventInbox.objects.exists()
