"""Webhooks of others that are signals to durable tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgqueue import InvalidMessage, receive_webhook
from pgqueue.models import Dedupe, StoredSignal
from pgqueue.testing import run_all
from tests.durable import tasks
from tests.inbox.test_signatures import SECRET
from tests.inbox.test_webhooks import post

pytestmark = pytest.mark.urls("tests.inbox.urls")


def sent(id: str = "m-1", **body: Any) -> Any:
    """Send a webhook about order 7."""
    return post("signal", json.dumps({"type": "paid", "order": 7, **body}).encode(), id=id)


def test_a_webhook_is_a_signal_once_however_often_it_is_sent() -> None:
    result = tasks.asks_late.using(dedupe_key="order:7").enqueue(1)
    run_all(raise_errors=True)

    statuses = [sent(more={"payload": 5}).status_code for _ in range(2)]

    assert statuses == [204, 204]
    assert StoredSignal.objects.get().payload == 5
    run_all(raise_errors=True)
    assert sent(more={"payload": 5}).status_code == 204
    result.refresh()
    assert result.return_value == 4 + 5 + 1


def test_its_payload_is_the_body_unless_it_has_another_one() -> None:
    tasks.asks_late.using(dedupe_key="order:7").enqueue(1)

    assert sent().status_code == 204

    assert StoredSignal.objects.get().payload == {"type": "paid", "order": 7}


def test_one_that_comes_before_its_message_is_sent_again() -> None:
    early = sent()

    assert (early.status_code, b"order:7" in early.content) == (409, True)
    assert not Dedupe.objects.exists()
    tasks.asks_late.using(dedupe_key="order:7").enqueue(1)
    assert sent().status_code == 204
    assert StoredSignal.objects.count() == 1


def test_one_that_nobody_needs_may_be_ignored() -> None:
    assert sent(type="other").status_code == 204
    assert sent(more={"if_ended": "ignore"}).status_code == 204
    assert not StoredSignal.objects.exists()


def test_one_that_can_not_be_a_signal_says_why() -> None:
    tasks.asks_late.using(dedupe_key="order:7").enqueue(1)

    for more in ({"name": ""}, {"payload": "x" * 70_000}):
        refused = sent(more=more)
        assert refused.status_code == 400, more
    assert sent("i" * 800).status_code == 400
    with pytest.raises(TypeError, match=r"signal= returned 'go'"):
        post("nonsense")
    assert not Dedupe.objects.exists()


@pytest.mark.parametrize("more", [{"to": "shop.paid"}, {"key": "a"}, {"signal": "go"}])
def test_its_options_are_checked(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage, match="signal= must be a function"):
        receive_webhook(**{"signal": len, "secrets": SECRET, "source": "shop", **more})
