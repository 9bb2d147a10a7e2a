from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management.base import BaseCommand
from django.db import OperationalError, connection
from django.test import override_settings

from pgqueue.checks import check_encryption, check_schedules, check_server, check_settings
from pgqueue.exceptions import InvalidTask
from pgqueue.management.commands import pgqueue_maintain, runworker
from pgqueue.tasks import registry
from tests import encrypted_jobs
from tests.processes import manage


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


@pytest.mark.parametrize(
    ("entry", "id", "said"),
    [
        (
            {"when": "0 3 * *", "task": "tests.jobs.add"},
            "pgqueue.E001",
            "'nightly': .*no cron line",
        ),
        ({"when": "@daily", "task": "tests.jobs.gone"}, "pgqueue.E008", "'nightly'.*No task"),
        ({"when": "@daily", "task": "tests.jobs.add"}, "pgqueue.E008", "'nightly'.*argument"),
        (
            {"when": "@daily", "task": "tests.batch_jobs.by_key", "args": [1], "overlap": "one"},
            "pgqueue.E008",
            "'nightly': .*batch_by='key'",
        ),
    ],
)
def test_a_schedule_that_cannot_be_is_named(entry: dict[str, object], id: str, said: str) -> None:
    with override_settings(PGQUEUE={"SCHEDULES": {"nightly": entry}}):
        (error,) = [*check_settings(None), *check_schedules(None)]

    assert error.id == id
    assert re.search(said, error.msg)


def test_a_line_of_a_task_that_can_not_be_read_is_named() -> None:
    # As the module is imported.
    refused = InvalidTask("schedule='at noon': 'at noon' is no cron line")
    with mock.patch("pgqueue.tasks.scheduling.autodiscover_modules", side_effect=refused):
        (error,) = check_schedules(None)

    assert (error.id, error.msg) == ("pgqueue.E008", str(refused))


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


@pytest.mark.django_db
def test_a_server_whose_wal_has_no_events_is_refused_where_it_is_to_be_followed() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('wal_level')")
        (level,) = cursor.fetchone()
    with override_settings(PGQUEUE={"FEED": "wal"}):
        found = check_server(None, databases=["default"])
        with mock.patch("pgqueue.checks.LOGICAL", "more than logical"):
            (error,) = check_server(None, databases=["default"])

    assert (found == []) is (level == "logical")
    assert error.id == "pgqueue.E009"
    assert "wal_level = logical" in (error.hint or "")
    assert check_server(None, databases=["default"]) == []


def test_a_server_that_is_not_there_is_not_the_check_to_fail() -> None:
    with mock.patch.object(connection, "ensure_connection", side_effect=OperationalError):
        assert check_server(None, databases=["default"]) == []


def test_no_database_is_asked_unless_the_check_is_of_databases() -> None:
    assert check_server(None) == []


class TestRunworker:
    """Channels and others have a command of that name, too: the first app in the list wins."""

    @pytest.mark.parametrize(
        ("apps", "is_named"),
        [
            ("['shadowing', *INSTALLED_APPS]", True),
            ("[*INSTALLED_APPS, 'shadowing']", False),
        ],
    )
    def test_of_another_app_is_named(self, tmp_path: Path, apps: str, is_named: bool) -> None:
        commands = tmp_path / "shadowing" / "management" / "commands"
        commands.mkdir(parents=True)
        (commands / "runworker.py").touch()
        (tmp_path / "shadowing" / "__init__.py").touch()
        (tmp_path / "shadowed.py").write_text(
            f"from tests.settings import *\nINSTALLED_APPS = {apps}\n"
        )

        done = manage("check", "--settings", "shadowed", PYTHONPATH=str(tmp_path))

        assert done.returncode == 0, done.stderr
        assert ("pgqueue.W001" in done.stderr) is is_named
        assert ("`manage.py runworker` is the command of shadowing" in done.stderr) is is_named

    @pytest.mark.django_db(databases=["default", "second"])
    @pytest.mark.parametrize("command", [runworker.Command, pgqueue_maintain.Command])
    def test_of_another_app_is_no_news_to_who_runs(self, command: type[BaseCommand]) -> None:
        with mock.patch("pgqueue.checks.get_commands", return_value={"runworker": "shadowing"}):
            assert "pgqueue.W001" in ids(run_checks(tags=["pgqueue"]))
            assert run_checks(tags=command.requires_system_checks) == []
        with override_settings(PGQUEUE={"LEASES": 1}):
            assert "pgqueue.E001" in ids(run_checks(tags=command.requires_system_checks))


@pytest.mark.django_db(databases=["default", "second"])
def test_the_app_needs_no_other_app() -> None:
    assert run_checks(app_configs=[apps.get_app_config("pgqueue")]) == []


def test_a_task_that_is_to_be_encrypted_needs_a_key_and_the_library() -> None:
    registry.find(encrypted_jobs.keep.name)

    with override_settings(PGQUEUE={}):
        (no_key,) = check_encryption(None)
    with mock.patch("pgqueue.tasks.encryption.find_spec", return_value=None):
        (no_library,) = check_encryption(None)

    assert (no_key.id, no_library.id) == ("pgqueue.E010", "pgqueue.E011")
    assert "PGQUEUE['ENCRYPTION_KEYS'] has no key" in no_key.msg
    assert no_library.hint == "Encryption needs cryptography: pip install 'pgqueue[encryption]'."
    assert check_encryption(None) == []
