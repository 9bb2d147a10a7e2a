"""Workers that start before `manage.py migrate`, or lose their tables later."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock, patch
from uuid import uuid4

import pytest
from django.db import connections

from pgqueue import migrations, signals
from pgqueue.database.connections import Session, connect
from pgqueue.models import History, Worker
from pgqueue.threads.service import Service
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.migrations import unapplied, wait_until_migrated
from pgqueue.worker.stopping import StopRequests
from tests import jobs
from tests.eventually import eventually
from tests.processes import Process, manage
from tests.unmigrated import empty_database, migrate

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def empty(transactional_db: None) -> Iterator[None]:
    """The database has no tables."""
    with empty_database():
        yield


class Starting(Process):
    """A worker that may find no tables, and what it logged until now."""

    def __init__(self, *arguments: str) -> None:
        with patch.object(Worker.objects, "values_list", return_value=[]):
            super().__init__(*arguments)

    def read_until(self, text: str) -> None:
        eventually(lambda: text in self.log or self.popen.poll() is not None, within=60)
        assert text in self.log, self.log

    def __enter__(self) -> Starting:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def waits(log: str) -> list[str]:
    return [line for line in log.splitlines() if "run manage.py migrate" in line]


NAMES = sorted(path.stem for path in Path(migrations.__file__).parent.glob("0*.py"))


@pytest.mark.parametrize(
    ("arguments", "applied", "missing"),
    [
        ([], None, NAMES),
        (["--processes", "2"], "0002_storage", NAMES[2:]),
        ([], NAMES[-2], NAMES[-1:]),
        (["--threads", "0"], None, NAMES),
    ],
)
@pytest.mark.slow
def test_it_says_once_what_to_do_and_begins_when_that_is_done(
    empty: None, arguments: list[str], applied: str | None, missing: list[str]
) -> None:
    if applied:
        migrate(applied)

    with Starting(*arguments) as worker:
        worker.read_until("run manage.py migrate")
        assert manage("migrate", "-v0", DJANGO_SETTINGS_MODULE="tests.settings").returncode == 0
        worker.read_until("Serving")
        if "0" not in arguments:
            result = jobs.add.enqueue(1, 2)
            eventually(lambda: History.objects.filter(pk=result.id).exists())
        else:
            eventually(lambda: Worker.objects.exists())
        worker.signal(signal.SIGTERM)
        assert worker.exit_status() == 0

    [line] = waits(worker.log)
    assert f"not applied: {', '.join(missing)})" in line
    assert "Traceback" not in worker.log
    assert "ERROR" not in worker.log


@pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=" ".join)
def test_it_ends_when_it_is_asked_to_while_it_waits(empty: None, arguments: list[str]) -> None:
    with Starting(*arguments) as worker:
        worker.read_until("run manage.py migrate")
        worker.signal(signal.SIGTERM)

        assert worker.exit_status() == 0

    assert "Serving" not in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=" ".join)
def test_it_is_alive_while_it_waits(empty: None, arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "alive"

    with Starting(*arguments, "--liveness-file", str(file)):
        eventually(file.exists, within=20)
        file.unlink()
        eventually(file.exists)


def test_an_outage_while_it_waits_is_waited_for(empty: None) -> None:
    session, requests = MainSession("default"), StopRequests()
    looks: list[str] = []

    def look() -> None:
        # At first the connection is lost, then the database is; then it is back, and migrated.
        looks.append("looked")
        if len(looks) == 1:
            session.cut()
            patched.start()
        else:
            patched.stop()
            migrate()
        requests.wake()

    patched = patch.dict(connections["default"].settings_dict, PORT="1", HOST="/nowhere")
    try:
        assert wait_until_migrated("default", session, requests, wellness=Mock(say_well=look))
    finally:
        session.close()
        requests.close()

    assert len(looks) == 2


class TestUnapplied:
    def test_nothing_is_where_all_is_migrated(self) -> None:
        with closing(connect("default", name="test")) as connection:
            assert unapplied(connection) == []

    def test_nothing_is_where_the_role_may_not_read_the_record(self) -> None:
        role = f"blind_{uuid4().hex}"
        with closing(connect("default", name="test")) as connection:
            connection.execute(f"CREATE ROLE {role}; SET ROLE {role}")
            try:
                assert unapplied(connection) == []
            finally:
                connection.execute(f"RESET ROLE; DROP ROLE {role}")

    def test_a_migration_that_replaces_others_is_where_these_are(self, empty: None) -> None:
        migrate()
        with connections["default"].cursor() as cursor:
            cursor.execute("DELETE FROM django_migrations WHERE name = '0003_functions'")
        replaced = [("pgqueue", "0001_initial"), ("pgqueue", "0002_storage")]

        with (
            closing(connect("default", name="test")) as connection,
            patch(
                "pgqueue.worker.migrations.import_module",
                side_effect=lambda name: Mock(
                    __path__=migrations.__path__, Migration=Mock(replaces=replaced)
                ),
            ),
        ):
            assert unapplied(connection) == []


class Asks(Service):
    """A service that needs a table, and sees whether it is there."""

    def __init__(self) -> None:
        super().__init__()
        self._session = Session("default", name="test")

    def tick(self) -> timedelta:
        self._session.connection.execute("SELECT 1 FROM pgqueue_message")
        return timedelta(seconds=0.01)

    def finish(self) -> None:
        self._session.close()


class TestServices:
    @pytest.fixture
    def services(self, transactional_db: None) -> Iterator[list[Asks]]:
        services = [Asks(), Asks()]
        for each in services:
            each.start()
        yield services
        for each in services:
            each.stop()
            assert each.stopped(timedelta(seconds=5))

    def lose_and_find_the_table(self, services: list[Asks]) -> None:
        with closing(connect("default", name="test")) as connection:
            connection.execute("ALTER TABLE pgqueue_message RENAME TO away")
            try:
                eventually(lambda: all(each._failures >= 2 for each in services))
            finally:
                connection.execute("ALTER TABLE away RENAME TO pgqueue_message")
        eventually(lambda: all(each._failures == 0 for each in services))

    def test_wait_quietly_while_tables_are_missing_and_go_on_by_themselves(
        self,
        services: list[Asks],
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("pgqueue.threads.service.LOOK_FOR_TABLES", timedelta(seconds=0.1))
        failed, missing = Mock(), Mock()
        signals.service_failed.connect(failed)
        signals.tables_missing.connect(missing)
        try:
            self.lose_and_find_the_table(services)
            self.lose_and_find_the_table(services)  # which is said again
        finally:
            signals.service_failed.disconnect(failed)
            signals.tables_missing.disconnect(missing)

        failed.assert_not_called()
        assert missing.call_count == 2
        lines = waits(caplog.text)
        assert len(lines) == 2
        assert 'relation "pgqueue_message" does not exist' in lines[0]
        assert "Traceback" not in caplog.text
