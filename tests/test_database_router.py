"""Django finds pgqueue's models in the queue's database, with or without a router."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import router

from pgqueue import webhooks
from pgqueue.compat.celery import rates
from pgqueue.database_router import QueueRouter, install
from pgqueue.models import Channel, Message, Policy, Webhook
from pgqueue.operating import channels as operated
from tests.compat.celery.jobs import limited

pytestmark = pytest.mark.django_db(databases=["default", "second"])


class Elsewhere:
    """A router of a project's, which has a mind of its own."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "default" if model is Message else None

    db_for_write = db_for_read


def test_rows_are_read_and_written_there(settings: Any) -> None:
    settings.PGQUEUE = {"DATABASE": "second"}

    Channel(name="mail").save()

    assert Channel.objects.db == "second"
    assert Channel.objects.using("second").get() == Channel.objects.get()
    assert not Channel.objects.using("default").exists()
    assert User.objects.db == "default"


def test_a_row_stays_where_it_is_from(settings: Any) -> None:
    row = Channel.objects.using("default").create(name="mail")
    settings.PGQUEUE = {"DATABASE": "second"}

    row.paused = True
    row.save()

    assert Channel.objects.using("default").get().paused
    assert not Channel.objects.exists()


def test_a_router_of_the_project_decides_first(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PGQUEUE = {"DATABASE": "second"}
    monkeypatch.setattr(router, "routers", [Elsewhere(), *router.routers])

    assert Message.objects.db == "default"
    assert Channel.objects.db == "second"


def test_what_we_change_by_ourselves_is_changed_in_the_queues_database(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PGQUEUE = {"DATABASE": "second"}
    settings.CELERY_TASK_ANNOTATIONS = {limited.name: {"rate_limit": "5/h"}}
    webhooks.create("shop", "https://example.com/hooks")
    operated.Channel("default").policy(rate=10, per=60, max_running=1, key=limited.name)
    writing = SimpleNamespace(db_for_write=lambda model, **hints: "default")
    monkeypatch.setattr(router, "routers", [writing, *router.routers])

    rates.apply()
    deleted = webhooks.delete("shop")

    assert deleted
    assert not Webhook.objects.using("second").exists()
    assert Policy.objects.using("second").get().rate == 5


def test_it_is_asked_once() -> None:
    install()

    assert len([each for each in router.routers if isinstance(each, QueueRouter)]) == 1
