"""The WAL feed in a test: with a slot and a publication of its own, in a thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from django.test import override_settings

from pgqueue.database.connections import connect
from pgqueue.engine import replication
from pgqueue.replication import slots
from pgqueue.replication.feed import WalFeed
from tests import programs
from tests.eventually import eventually


def own_slot() -> str:
    """Return a name that no other test database of the server uses."""
    name = connections["default"].settings_dict["NAME"]
    return re.sub(r"[^a-z0-9_]", "_", name.lower())[-63:]


def by_wal(**more: Any) -> Any:
    """Have the settings say that the WAL is followed."""
    return override_settings(PGQUEUE={**settings.PGQUEUE, **_named(), **more})


def in_environment() -> dict[str, str]:
    """Return what tells another process the same."""
    return {f"PGQUEUE_{name}": value for name, value in _named().items()}


def _named() -> dict[str, str]:
    return {"FEED": "wal", "REPLICATION_SLOT": own_slot(), "PUBLICATION": "tests"}


@contextmanager
def slot_made() -> Iterator[str]:
    """Make the slot and the publication; drop them at the end. Skip where no WAL is logical."""
    name = own_slot()
    with closing(connect("default", name="test")) as connection:
        if replication.state(connection, name, "tests").wal_level != "logical":
            programs.leave_out("the server's wal_level is not logical")
        _drop(connection, name)
        slots.make_feed(connection, name, "tests")
    try:
        yield name
    finally:
        with closing(connect("default", name="test")) as connection:
            _drop(connection, name)


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    with suppress(psycopg.errors.UndefinedObject):
        replication.take_over(connection, name)
        eventually(lambda: not _is_active(connection, name), what="the slot is free")
        slots.drop(connection, name, "tests")


def _is_active(connection: psycopg.Connection[Any], name: str) -> bool:
    slot = replication.state(connection, name, "tests").slot
    return bool(slot and slot.is_active)


@contextmanager
def feeding(*, waits: bool = True) -> Iterator[WalFeed]:
    """Follow the WAL in a thread, for a while."""
    feed = WalFeed("default")
    feed.start()
    try:
        if waits:
            eventually(lambda: feed.is_streaming, what="it follows the WAL")
        yield feed
    finally:
        feed.stop()
        assert feed.stopped(timedelta(seconds=10))
