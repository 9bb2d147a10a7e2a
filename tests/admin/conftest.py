from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.browsing import browser, page  # noqa: F401

Connection = psycopg.Connection[Any]
Login = Callable[..., Client]

VIEWED = (
    *("message", "history", "channel", "policy", "worker", "event", "group", "subscription"),
    "webhook",
    "flow",
)
EVERY_VIEW = tuple(f"view_{each}" for each in VIEWED)


@pytest.fixture
def login() -> Login:
    """A function that logs in a member of the staff with some of the queue's permissions."""

    def login(*codenames: str) -> Client:
        user = User.objects.create(username=f"user {User.objects.count()}", is_staff=True)
        chosen = Permission.objects.filter(
            content_type__app_label="pgqueue", codename__in=codenames
        )
        assert len(chosen) == len(codenames)
        user.user_permissions.set(chosen)
        client = Client()
        client.force_login(user)
        return client

    return login


@pytest.fixture
def viewer(db: None, login: Login) -> Client:
    """A user who may only look."""
    return login(*EVERY_VIEW)


@pytest.fixture
def operator(db: None, login: Login) -> Client:
    """A user who may run, cancel and replay."""
    return login(*EVERY_VIEW, "operate_message")


@pytest.fixture
def purger(db: None, login: Login) -> Client:
    """A user who may discard."""
    return login(*EVERY_VIEW, "purge_message")
