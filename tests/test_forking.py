"""A forked child, and the sessions, handlers and ports of its parent."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from threading import Event

import pytest
from django.db import connection, connections, transaction

from pgqueue.database import forking
from pgqueue.database.connections import connect
from pgqueue.metrics.port import Port
from pgqueue.threads.listener import Topic, TopicListener, subscribe
from pgqueue.worker.stopping import SIGNALS, StopRequests
from tests.eventually import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def in_child(function: Callable[[], object]) -> int:
    """Run a function in a forked child; return the child's exit status."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TestASession:
    def test_of_ours_that_a_child_closes_goes_on_in_its_parent(self) -> None:
        with closing(connect("default", name="test")) as own:
            assert in_child(own.close) == 0

            assert own.execute("SELECT 1").fetchone() == (1,)

    def test_of_djangos_that_a_child_closes_goes_on_in_a_process_of_ours(self) -> None:
        forking.serve()
        connection.ensure_connection()
        before = connection.connection.info.backend_pid

        with transaction.atomic():
            assert in_child(connections.close_all) == 0

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            assert cursor.fetchone() == (before,)

    def test_of_a_listener_that_a_child_closes_goes_on_hearing(self) -> None:
        heard: list[object] = []
        topic = Topic("forking")
        hearing = subscribe("default", TopicListener(topic=topic, heard=heard.append))
        try:
            hearing.begun.result(10)
            listener = hearing.listener
            assert listener

            assert in_child(listener._session.close) == 0

            heard.clear()
            with connection.cursor() as cursor:
                [channel] = [name for name, its in listener._channels.items() if its == topic]
                cursor.execute("SELECT pg_notify(%s, 'said')", [channel])
            eventually(lambda: heard)
            assert heard == ["said"]
        finally:
            hearing.close()


class TestAHandler:
    @pytest.mark.parametrize("number", SIGNALS)
    def test_of_ours_is_the_default_one_in_a_child(self, number: signal.Signals) -> None:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        requests = StopRequests()
        with requests.on_signals(*SIGNALS):

            def check() -> None:
                assert signal.getsignal(number) == default

            assert in_child(check) == 0
            os.kill(os.getpid(), signal.SIGTERM)
        assert requests.count == 1
        requests.close()

    def test_of_ours_is_the_default_one_in_a_child_also_after_one_within_it(self) -> None:
        outer, inner = StopRequests(), StopRequests()

        def check() -> None:
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

        with outer.on_signals(*SIGNALS):
            with inner.on_signals(*SIGNALS):
                pass

            assert in_child(check) == 0
        inner.close()
        outer.close()

    def test_of_ours_takes_no_signal_from_a_child(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A pool that is left may terminate a process which has just been forked."""
        restore = forking._restore_handlers

        def restore_late() -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            restore()

        monkeypatch.setattr(forking, "_restore_handlers", restore_late)
        requests = StopRequests()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        with requests.on_signals(*SIGNALS):
            assert in_child(lambda: None) == -signal.SIGTERM
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
        assert requests.count == 0
        requests.close()

    def test_of_the_project_stays(self) -> None:
        requests = StopRequests()
        with requests.on_signals(*SIGNALS):
            its = signal.signal(signal.SIGTERM, lambda *_: None)

            def check() -> None:
                assert signal.getsignal(signal.SIGTERM) not in (its, signal.SIG_DFL)

            assert in_child(check) == 0
        requests.close()


def test_a_port_is_not_kept_by_a_child() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        number = free.getsockname()[1]
    port = Port("127.0.0.1", number)
    child = os.fork()
    if not child:
        Event().wait(60)
        os._exit(0)
    try:
        port._server.server_close()

        def is_free() -> bool:
            # The child may have to begin.
            try:
                socket.create_server(("127.0.0.1", number)).close()
            except OSError:
                return False
            return True

        eventually(is_free, within=5)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, 0), (ValueError("no"), 1), (SystemExit(3), 3), (SystemExit(), 0), (SystemExit("x"), 1)],
)
def test_a_child_ends_as_a_program_does(error: BaseException | None, status: int) -> None:
    began = forking.generation

    def end() -> None:
        try:
            if error:
                raise error
        finally:
            forking.leave_if_forked_since(began)
        os._exit(99)

    assert in_child(end) == status


def test_a_process_that_is_no_child_goes_on() -> None:
    forking.leave_if_forked_since(forking.generation)
