"""A server that has no connection left."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import psycopg
import pytest

from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage

CONNECTIONS = 40


@pytest.mark.chaos
def test_a_server_without_a_free_connection_is_waited_for(stage: Stage) -> None:
    """Some are cut off, and others have taken their places when they come back."""
    stage.server.stop()
    stage.server.settings["max_connections"] = str(CONNECTIONS)
    stage.server.start()
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=80, port=proxy.port)
    stage.worker(port=proxy.port)
    stage.settles(50)

    for _ in range(2):
        stage.keep_busy(6)
        with stage.fault(), ExitStack() as taken:
            proxy.cut()
            with suppress(psycopg.OperationalError):
                for _ in range(2 * CONNECTIONS):
                    # As a superuser, who may have the last ones, too.
                    taken.enter_context(stage.server.connect(application_name="hog"))
            proxy.restore()
            nap(2)

    assert "too many clients" in stage.server.log()
    assert "too many clients" in stage.workers[0].log
    stage.end()
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)
    assert stage.untouched()
