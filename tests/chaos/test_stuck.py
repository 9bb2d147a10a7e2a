"""A worker of which a part is dead or stuck: it ends by itself, with a status, and is replaced."""

from __future__ import annotations

import pytest

from tests.chaos.harness.stage import Stage

pytestmark = pytest.mark.chaos

STATUS = 70


@pytest.mark.parametrize("service", ["fetcher", "settler", "heartbeat", "duties"])
def test_a_worker_whose_service_died_ends_and_others_go_on(stage: Stage, service: str) -> None:
    stage.load()
    victim = stage.worker("--channel", "aside")
    [number] = stage.numbers("plain", 1)
    stage.enqueue("ends_a_thread", number, service, channel="aside")

    with stage.fault():
        assert victim.exit_status(within=90) == STATUS
        stage.expect_dead(victim)
        stage.worker()

    assert "nothing done for too long" in victim.log
    stage.end()


def test_a_process_whose_service_died_is_replaced(stage: Stage) -> None:
    stage.load()
    arguments = ["--channel", "aside", "--processes", "2"]
    several = stage.worker(*arguments, PGQUEUE_LEASE="3600")
    first, *others = stage.numbers("plain", 21)

    stage.enqueue("ends_a_thread", first, "settler", channel="aside")
    for number in others:
        stage.enqueue("plain", number, channel="aside")

    # Long before the leases of what it held are over.
    stage.end(within=90)
    assert f"died with status {STATUS}" in several.log
