"""Webhooks meet real endpoints, on loopback, which these tests' settings allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pgqueue.webhooks import targets
from tests.webhooks.receiver import Receiver, receiving

LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An endpoint that answers 200 if nothing else is said."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def webhook_options(settings: Any) -> dict[str, Any]:
    """Set options of `PGQUEUE["WEBHOOKS"]`, beside those of the tests."""
    return {"ALLOW_PRIVATE": LOOPBACK, "TIMEOUT": 5}


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings: Any, webhook_options: dict[str, Any]) -> Iterator[None]:
    settings.PGQUEUE = {**settings.PGQUEUE, "WEBHOOKS": webhook_options}
    targets.forget_all()
    yield
    targets.forget_all()
