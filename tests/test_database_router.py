"""Django finds pgqueue's models in the queue's database, with or without a router."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import router

from pgqueue.database_router import QueueRouter, install
from pgqueue.models import Channel, Message

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


def test_it_is_asked_once() -> None:
    install()

    assert len([each for each in router.routers if isinstance(each, QueueRouter)]) == 1
