"""Queues in several databases, as docs/scale.md has them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from django.core.management import call_command

from pgqueue.events import subscribing
from pgqueue.models import History, Message
from tests.docs.blocks import blocks
from tests.docs.shop import install_shop

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "second"])


def test_keys_are_spread_over_databases_that_each_have_a_worker(
    own_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_shop(monkeypatch)
    _, block = blocks("docs/scale.md", "python")
    names: dict[str, object] = {"__name__": "example"}

    exec(block.code, names)  # noqa: S102
    waiting = {alias: Message.objects.using(alias).count() for alias in ("default", "second")}
    for alias in waiting:
        call_command("runworker", "--drain", "--database", alias)

    assert sum(waiting.values()) == 4
    assert all(waiting.values())
    for alias, messages in waiting.items():
        assert History.objects.using(alias).count() == messages


def test_an_event_of_one_database_is_received_once_in_another(
    own_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    block, _ = blocks("docs/scale.md", "python")
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)

    exec(block.code, vars(module))  # noqa: S102
    event = SimpleNamespace(unique_id="7-1", payload={"order": 7})
    for _ in range(2):
        module.hand_over.func(event)

    assert Message.objects.using("second").get().task == "example.book"
    assert not Message.objects.exists()
