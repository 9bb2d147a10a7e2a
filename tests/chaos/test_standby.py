"""A primary that dies, and a standby that takes its place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.chaos.harness.server import Server, url
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.standby import following
from tests.eventually import eventually
from tests.processes import ROOT


@pytest.fixture
def standby(stage: Stage) -> Iterator[Server]:
    """A replica that every commit of the primary waits for."""
    with following(stage.server) as follower:
        yield follower


def test_nothing_committed_is_lost_when_a_standby_is_promoted(
    stage: Stage, standby: Server
) -> None:
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=100, port=proxy.port)
        stage.worker(port=proxy.port)
    stage.settles(200)

    with stage.fault():
        stage.server.stop("killed")
        proxy.cut()
        standby.promote()
        stage.server, proxy.target = standby, standby.port
        proxy.restore()

    stage.settles(200)
    stage.end()
    assert stage.ask("SELECT sum(lost) FROM pgqueue_history") == (0,)


@pytest.mark.chaos
def test_workers_that_were_led_to_a_standby_come_back_by_themselves(
    stage: Stage, standby: Server
) -> None:
    """A name lags behind: the connections that it has led astray are not ended."""
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=50)
        stage.worker(port=proxy.port)
    stage.settles(100)

    with stage.fault():
        proxy.target = standby.port
        proxy.snap()
        for worker in stage.workers:
            eventually(lambda worker=worker: "read-only" in worker.log, what="it is refused")
        proxy.target = stage.server.port

    stage.settles(200)
    stage.end()


READ = """
import django

django.setup()
from django.db import transaction
from pgqueue import Channel, publish, read
from pgqueue.models import History

{publishing}
with transaction.atomic():
    print([event.topic for event in read()], History.objects.count(), Channel("raw").stats().dead)
"""


def test_a_standby_that_follows_tells_what_the_primary_has(stage: Stage, standby: Server) -> None:
    """In a transaction nobody gives positions, which a standby could not."""
    stage.producer(rate=50)
    stage.worker()
    stage.settles(20)
    stage.end()

    first = asked(stage.server, 'publish("order.paid")\nread()')

    assert "'order.paid'" in first
    eventually(lambda: asked(standby) == first, what="it has replayed that")


def asked(server: Server, publishing: str = "") -> str:
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
        "DATABASE_URL": url(server.port),
    }
    code = READ.format(publishing=publishing)
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
