"""Workers that are asked to stop, in each situation that makes it hard."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually
from tests.system import children

SIGINT, SIGTERM = signal.SIGINT, signal.SIGTERM
KUBERNETES = 30.0
"""Seconds after which a pod is killed, unless told otherwise."""


CHARGES = """
SELECT sum(lost), sum(failures) FROM pgqueue_history WHERE task NOT LIKE '%%.fails_once%%'
"""
CHARGED = "SELECT count(*), sum(lost), sum(failures) FROM pgqueue_history WHERE channel = 'aside'"
HANDED_BACK = """
SELECT count(*), sum(lost), sum(failures) FROM pgqueue_message
WHERE channel = 'aside' AND state = 'ready'
"""
PROCESSES = ["--processes", "2", "--threads", "4", "--async", "20"]


def seconds_to_end(worker: Process, within: float = KUBERNETES + 10, *, status: int = 0) -> float:
    began = time.monotonic()
    assert worker.exit_status(within) == status, worker.log
    return time.monotonic() - began


def signal_first(worker: Process, number: signal.Signals) -> None:
    worker.signal(number)


def signal_all(worker: Process, number: signal.Signals) -> None:
    """As Ctrl-C in a terminal does, and systemd by default."""
    for pid in (worker.pid, *children(worker.pid)):
        os.kill(pid, number)


@pytest.mark.parametrize(
    ("send", "number", "arguments"),
    [
        pytest.param(signal_first, SIGTERM, [], marks=pytest.mark.chaos),
        pytest.param(signal_first, SIGINT, [], marks=pytest.mark.chaos),
        pytest.param(signal_first, SIGTERM, PROCESSES, marks=pytest.mark.chaos),
        pytest.param(signal_all, SIGINT, PROCESSES, marks=pytest.mark.chaos),
    ],
)
def test_under_load_it_charges_nothing_and_others_go_on(
    stage: Stage,
    send: Callable[[Process, signal.Signals], None],
    number: signal.Signals,
    arguments: list[str],
) -> None:
    for _ in range(2):
        stage.producer(rate=120)
    worker = stage.worker(*arguments)
    stage.settles(30)

    for _ in range(4):
        leaving, worker = worker, stage.worker(*arguments)
        with stage.fault():
            send(leaving, number)
            assert seconds_to_end(leaving) < 5
        stage.expect_dead(leaving)

    stage.end()
    assert stage.ask(CHARGES) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "at_once"),
    [
        (["--threads", "4"], 4),
        pytest.param([*PROCESSES], 8, marks=pytest.mark.chaos),
    ],
)
@pytest.mark.nightly
def test_a_second_signal_hands_back_at_once_what_runs(
    stage: Stage, arguments: list[str], at_once: int
) -> None:
    stage.load()
    worker = stage.worker("--channel", "aside", *arguments)
    for _ in range(8):
        for kind, task in (("plain", "stops_midway"), ("atomic", "stops_midway_atomic")):
            [number] = stage.numbers(kind, 1)
            stage.enqueue(task, number, str(stage.folder), 5, channel="aside")
    eventually(lambda: len(list(stage.folder.glob("* took effect"))) == at_once)

    with stage.fault():
        worker.signal(SIGTERM)
        nap(0.5)
        assert worker.is_alive
        worker.signal(SIGTERM)
        assert seconds_to_end(worker) < 5
        stage.worker()
    stage.expect_dead(worker)

    stage.end()
    assert stage.ask(CHARGED) == (16, 0, 0)


@pytest.mark.chaos
def test_what_ends_while_postgresql_is_away_for_a_while_is_written_down(stage: Stage) -> None:
    stage.load()
    proxy = stage.proxy()
    numbers = stage.numbers("atomic", 4)  # of which each has one effect
    worker = stage.worker(
        "--channel", "aside", "--threads", "4", port=proxy.port, PGQUEUE_LEASE="30"
    )
    for number in numbers:
        stage.enqueue("stops_midway", number, str(stage.folder), 1, channel="aside")
    eventually(lambda: len(list(stage.folder.glob("* took effect"))) == 4)

    proxy.cut()
    worker.signal(SIGTERM)
    nap(6)
    proxy.restore()
    seconds_to_end(worker)
    stage.expect_dead(worker)

    stage.end()
    assert stage.ask(CHARGED) == (4, 0, 0)
    assert stage.ask("SELECT max(attempt) FROM pgqueue_history WHERE channel = 'aside'") == (1,)


@pytest.mark.chaos
@pytest.mark.parametrize("arguments", [[], PROCESSES], ids=["one", "several"])
def test_a_task_that_ignores_everything_is_handed_back_within_30_s(
    stage: Stage, arguments: list[str]
) -> None:
    stage.load()
    worker = stage.worker("--channel", "aside", *arguments)
    for number in stage.numbers("plain", 2):
        stage.enqueue("ignores_everything", number, str(stage.folder), channel="aside")
    eventually(lambda: len(list(stage.folder.glob("* began"))) == 2)

    with stage.fault():
        worker.signal(SIGTERM)
        took = seconds_to_end(worker)
        handed_back = stage.ask(HANDED_BACK)
        rows = stage.ask("SELECT count(*) FROM pgqueue_worker WHERE 'aside' = ANY (channels)")
        stage.worker()
    stage.expect_dead(worker)

    assert took < KUBERNETES
    assert (handed_back, rows) == ((2, 0, 0), (0,))
    stage.end()
    assert stage.ask(CHARGED) == (2, 0, 0)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("arguments", "at_once"), [([], 4), (PROCESSES, 8)], ids=["one", "several"]
)
@pytest.mark.parametrize("how", ["down", "silent"])
def test_while_postgresql_is_away_it_ends_within_30_s(
    stage: Stage, how: str, arguments: list[str], at_once: int
) -> None:
    stage.load()
    proxy = stage.proxy()
    worker = stage.worker("--channel", "aside", "--threads", "4", *arguments, port=proxy.port)
    for number in stage.numbers("plain", 30):
        stage.enqueue("stops_midway", number, str(stage.folder), 2, channel="aside")
    eventually(lambda: len(list(stage.folder.glob("* took effect"))) >= at_once)

    if how == "down":
        proxy.cut()
    else:
        proxy.freeze()
    nap(1)
    worker.signal(SIGTERM)
    took = seconds_to_end(worker, status=1)
    stage.expect_dead(worker)

    assert took < KUBERNETES
    with stage.fault():
        proxy.restore()
        stage.worker()
    stage.end()
    # With a lost worker each, at most.
    count, lost, failures = stage.ask(CHARGED)
    assert (count, failures) == (30, 0)
    assert at_once <= lost <= 30
