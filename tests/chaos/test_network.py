"""A network that is cut, slow, or silent without a word."""

from __future__ import annotations

import pytest

from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually


def test_connections_that_are_reset_are_opened_anew(stage: Stage) -> None:
    proxy = stage.proxy()
    for _ in range(2):
        stage.producer(rate=120, port=proxy.port)
        stage.worker(port=proxy.port)
    stage.settles(50)

    for _ in range(8):
        nap(stage.random.uniform(0.1, 0.5))
        with stage.fault():
            proxy.snap()

    stage.end()


@pytest.mark.chaos
def test_a_network_that_is_down_for_longer_than_a_lease_loses_nothing(stage: Stage) -> None:
    """One worker is cut off, the other takes over; then both are."""
    cut_off = stage.proxy()
    stage.producer(rate=100)
    stage.worker(port=cut_off.port)
    stage.settles(30)

    with stage.fault():
        cut_off.cut()
        nap(3)
        cut_off.restore()
    stage.worker()
    with stage.fault():
        cut_off.cut()
        nap(3)
        cut_off.restore()

    stage.end()


@pytest.mark.chaos
def test_a_slow_network_slows_down_and_loses_nothing(stage: Stage) -> None:
    proxy = stage.proxy()
    stage.producer(rate=50)
    stage.worker(port=proxy.port)
    stage.settles(20)

    with stage.fault():
        proxy.delay = 0.3
        nap(5)
        proxy.delay = 0

    stage.end()


def has_noticed(worker: Process) -> bool:
    """Whether it gave its connections up, or itself."""
    return "failed and will try again" in worker.log or not worker.is_alive


@pytest.mark.chaos
def test_connections_that_die_half_open_are_given_up_and_replaced(stage: Stage) -> None:
    """Nothing comes through and nothing says so; others take over meanwhile."""
    silent = stage.proxy()
    stage.producer(rate=60)
    stuck = stage.worker(port=silent.port)
    stage.settles(30)

    silent.freeze()
    with stage.fault():
        stage.worker()
    # Its sockets stay open: only a time-out can tell.
    eventually(lambda: has_noticed(stuck), within=75, what="it notices by itself")
    with stage.fault():
        silent.restore()
    if not stuck.is_alive:
        assert stuck.exit_status() > 0, "what it runs under must know that it failed"
        stage.expect_dead(stuck)

    stage.end()
