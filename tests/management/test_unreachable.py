"""Commands whose database is unreachable."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError
from django.db import OperationalError, connections
from pytest_django import DjangoDbBlocker

from pgqueue.management.commands import pgqueue_list
from tests.management.calling import call


@pytest.fixture
def gone(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The alias of a database at a closed port."""
    closed = {**connections.settings["default"], "HOST": "127.0.0.1", "PORT": "1"}
    with patch.dict(connections.settings, gone=closed), django_db_blocker.unblock():
        yield "gone"
        connections["gone"].close()
        del connections["gone"]


@pytest.mark.parametrize(
    "words",
    [
        ("pgqueue_list",),
        ("pgqueue_show", "1"),
        ("pgqueue_stats",),
        ("pgqueue_cancel", "--all"),
        ("pgqueue_rerun", "--all"),
        ("pgqueue_channel", "list"),
        ("pgqueue_schedule", "list"),
        ("pgqueue_group", "list"),
        ("pgqueue_subscription", "list"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_says_so_in_one_line(gone: str, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="The database is unreachable: ") as raised:
        call(*words, "--database", gone)

    assert "\n" not in str(raised.value)


def fail_with(cause: psycopg.Error) -> Exception:
    """Return Django's error that has one of psycopg's as its cause."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (psycopg.OperationalError("the connection is closed"), CommandError),
        (psycopg.errors.AdminShutdown("terminating connection"), CommandError),
        (psycopg.errors.LockNotAvailable("canceling statement"), OperationalError),
        (psycopg.errors.DiskFull("could not extend file"), OperationalError),
    ],
)
def test_only_errors_of_the_connection_say_so(
    cause: psycopg.Error, expected: type[Exception]
) -> None:
    with (
        patch.object(pgqueue_list.Command, "handle", side_effect=fail_with(cause)),
        pytest.raises(expected, match=str(cause)),
    ):
        call("pgqueue_list")
