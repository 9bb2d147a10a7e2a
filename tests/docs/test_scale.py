"""Queues in several databases, as docs/scale.md has them."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from pgqueue.models import History, Message
from tests.docs.blocks import blocks


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
def test_keys_are_spread_over_databases_that_each_have_a_worker() -> None:
    [block] = blocks("docs/scale.md", "python")
    names: dict[str, object] = {"__name__": "example"}

    exec(block.code, names)  # noqa: S102
    waiting = {alias: Message.objects.using(alias).count() for alias in ("default", "second")}
    for alias in waiting:
        call_command("runworker", "--drain", "--database", alias)

    assert sum(waiting.values()) == 4
    assert all(waiting.values())
    for alias, messages in waiting.items():
        assert History.objects.using(alias).count() == messages
