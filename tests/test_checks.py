from __future__ import annotations

from unittest import mock

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.db import OperationalError, connection
from django.test import override_settings

from pgqueue.checks import check_server, check_settings


def ids(messages: list[object]) -> list[str]:
    return [message.id for message in messages]  # type: ignore[attr-defined]


def test_a_good_project_has_nothing_to_hear() -> None:
    assert check_settings(None) == []


@pytest.mark.parametrize(
    ("given", "id", "said"),
    [
        ({"LEASES": 1}, "pgqueue.E001", "Did you mean 'LEASE'"),
        ({"DATABASE": "elsewhere"}, "pgqueue.E002", "'elsewhere'"),
    ],
)
def test_settings_that_cannot_be_are_named(given: dict[str, object], id: str, said: str) -> None:
    with override_settings(PGQUEUE=given):
        (error,) = check_settings(None)

    assert error.id == id
    assert said in error.msg


def test_another_engine_is_refused_in_a_sentence() -> None:
    with mock.patch.object(connection, "vendor", "sqlite"):
        (error,) = check_settings(None)

    assert error.id == "pgqueue.E003"
    assert "PostgreSQL 15 or newer" in (error.hint or "")


@pytest.mark.django_db
def test_an_older_postgresql_is_refused_in_a_sentence() -> None:
    connection.ensure_connection()
    info = mock.Mock(server_version=140012)
    with mock.patch.object(type(connection.connection), "info", info):
        (error,) = check_server(None, databases=["default"])

    assert error.id == "pgqueue.E004"
    assert "is PostgreSQL 14" in error.msg
    assert check_server(None, databases=["default"]) == []


def test_a_server_that_is_not_there_is_not_the_check_to_fail() -> None:
    with mock.patch.object(connection, "ensure_connection", side_effect=OperationalError):
        assert check_server(None, databases=["default"]) == []


def test_no_database_is_asked_unless_the_check_is_of_databases() -> None:
    assert check_server(None) == []


@pytest.mark.django_db(databases=["default", "second"])
def test_the_app_needs_no_other_app() -> None:
    assert run_checks(app_configs=[apps.get_app_config("pgqueue")]) == []
