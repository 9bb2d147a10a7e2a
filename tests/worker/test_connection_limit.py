"""A worker whose role may have no more connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from unittest.mock import patch
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError, connection
from psycopg.sql import SQL, Identifier, Literal

from pgqueue.database import connections as own
from pgqueue.database.connections import Session
from pgqueue.models import History, Message
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.failures import refused_connection
from pgqueue.worker.leases import Leases
from pgqueue.worker.settler import Settler
from pgqueue.worker.wakeups import FetcherWakeup, Wakeups
from pgqueue.worker.worker import Worker
from tests import jobs
from tests.eventually import eventually
from tests.processes import database_url, starting
from tests.worker.test_fetcher import a_fetcher

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def role() -> Iterator[str]:
    """A login whose number of connections is bounded, unlike a superuser's."""
    name = f"limited_{uuid4().hex[:12]}"
    with connection.cursor() as cursor:
        cursor.execute(
            SQL("CREATE ROLE {} LOGIN PASSWORD 'secret' IN ROLE {}")
            .format(Identifier(name), Identifier(connection.settings_dict["USER"] or "postgres"))
            .as_string(connection.connection)
        )
    yield name
    with connection.cursor() as cursor:
        cursor.execute(SQL("DROP ROLE {}").format(Identifier(name)).as_string(cursor.connection))


def allow(role: str, count: int) -> None:
    """Let the role have so many connections."""
    with connection.cursor() as cursor:
        change = SQL("ALTER ROLE {} CONNECTION LIMIT {}")
        cursor.execute(change.format(Identifier(role), Literal(count)).as_string(cursor.connection))


def test_a_task_that_gets_no_connection_is_charged_nothing(role: str) -> None:
    allow(role, 5)  # what the worker needs itself
    jobs.sleep_and_sign.enqueue_many([(0,)] * 3)
    login = f"//{connection.settings_dict['USER']}"
    url = database_url()
    assert login in url

    with starting("--threads", "2", database=url.replace(login, f"//{role}:secret")) as worker:
        eventually(
            lambda: Message.objects.filter(attempt__gte=3).count() == 3,
            within=30,
            what="they are not tried",
        )
        assert set(Message.objects.values_list("failures", "lost")) == {(0, 0)}
        allow(role, 20)
        eventually(lambda: History.objects.count() == 3, within=60)
        worker.signal(15)
        assert worker.exit_status() == 0

    assert set(History.objects.values_list("failures", "lost", "outcome")) == {(0, 0, "succeeded")}
    assert "got no connection" in worker.log


class TestARefusedConnection:
    @pytest.fixture
    def refusing(self) -> Callable[[], None]:
        """What connects by Django, to a port where nothing listens."""
        wrapper = connection.copy(alias="refusing")
        wrapper.settings_dict |= {"HOST": "127.0.0.1", "PORT": "1"}
        return wrapper.connect

    def test_is_found_behind_what_a_task_made_of_it(self, refusing: Callable[[], None]) -> None:
        try:
            try:
                refusing()
            except psycopg.OperationalError as error:
                raise ValueError("no stock") from error
        except ValueError as error:
            raised = error

        assert isinstance(refused_connection(raised, "refusing"), psycopg.OperationalError)
        assert refused_connection(raised, "default") is None

    def test_is_none_that_was_lost_or_that_a_task_made_itself(self) -> None:
        def lose() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        def connect() -> None:
            psycopg.connect("host=127.0.0.1 port=1")

        for raises in (lose, connect):
            with pytest.raises((OperationalError, psycopg.OperationalError)) as raised:
                raises()
            assert refused_connection(raised.value, "default") is None
        connection.close()


class TestASettlerWithoutAConnection:
    def test_is_asked_by_the_worker_s_own_fetcher(self) -> None:
        config = WorkerConfig(database="default", threads=1, grace=timedelta())
        worker = Worker(config)
        pipeline = worker._pipeline
        assert pipeline

        before = pipeline.fetcher._settler.is_connected
        pipeline.settler._connect()
        after = pipeline.fetcher._settler.is_connected
        pipeline.settler.finish()
        pipeline.fetcher.finish()
        worker._main_session.close()
        worker._requests.close()

        assert (before, after) == (False, True)

    def test_keeps_messages_from_being_claimed(self) -> None:
        wakeups = Wakeups(FetcherWakeup())
        settler = Settler(
            Session("default", name="settler"),
            Leases(),
            None,  # type: ignore[arg-type]  # it settles nothing here
            wakeups,
        )
        jobs.add.enqueue(1)
        refusal = psycopg.OperationalError("FATAL: too many connections for role")
        buffer = Buffer(8, wakeups.fetcher)
        with a_fetcher(buffer, Leases(), wakeups=wakeups, settler=settler) as fetcher:
            with (
                patch.object(own, "_open", side_effect=refusal),
                pytest.raises(psycopg.OperationalError),
            ):
                settler.tick()
            nap = fetcher.tick()
            assert nap > timedelta()
            assert Message.objects.get().state == "ready"

            settler.tick()
            fetcher.rest(timedelta(seconds=10))  # the settler has woken it
            assert fetcher.tick() == timedelta()

        assert Message.objects.get().state == "running"
        settler.finish()
