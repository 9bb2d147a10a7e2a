"""Messages that take their workers down with them, among innocent ones."""

from __future__ import annotations

import pytest

from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

BY_LOSSES = (
    "SELECT count(*) FROM pgqueue_message WHERE state = 'dead' AND (lost, failures) = (3, 0)"
)


@pytest.mark.parametrize(
    "poison", ["segfaults", pytest.param("is_killed", marks=pytest.mark.chaos)]
)
def test_a_task_that_kills_its_process_ends_dead_and_it_alone(stage: Stage, poison: str) -> None:
    innocents = stage.numbers("plain", 60)
    [guilty] = stage.numbers("poison", 1)
    for number in innocents[:30]:
        stage.enqueue("plain", number, 0.05)
    stage.enqueue(poison, guilty)
    for number in innocents[30:]:
        stage.enqueue("plain", number, 0.05)

    stage.producer(rate=40)

    stage.worker(PGQUEUE_MAX_LOST="3")

    def is_dead() -> bool:
        stage.replace_the_dead(PGQUEUE_MAX_LOST="3")
        return stage.ask(BY_LOSSES) != (0,)

    with stage.fault():
        eventually(is_dead, within=60)

    stage.end()
    assert stage.ask(BY_LOSSES) == (1,)
    assert stage.ask("SELECT sum(lost) > 0 FROM pgqueue_history") == (True,), "it was alone"
