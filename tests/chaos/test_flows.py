"""Messages that wait for others, while workers and PostgreSQL are killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from tests.chaos.harness.meddlers import Often
from tests.chaos.harness.processes import Process
from tests.chaos.harness.proxy import Terminate
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import names_of
from tests.engine.flow_graphs import Graph
from tests.eventually import eventually

WAITING = "SELECT count(*) > 100 FROM pgqueue_blocked"
ENDED = "SELECT count(*), count(ended_at) FROM pgqueue_flow"


@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.chaos)])
def test_flows_go_on_exactly_where_workers_and_the_server_are_killed(
    stage: Stage, rounds: int
) -> None:
    stage.flows()
    stage.worker()
    victim = stage.worker()

    for _ in range(rounds):
        amid_flows(stage)
        with stage.fault():
            stage.kill(victim)
        victim = stage.worker()
        amid_flows(stage)
        with stage.fault():
            stage.server.stop("immediate")
            nap(stage.random.uniform(0, 0.5))
            stage.server.start()

    stage.end()
    count, ended = stage.ask(ENDED)
    assert count == ended > 0


RUNNING = "SELECT count(*) = %s FROM pgqueue_message WHERE state = 'running'"
RESCUED = "SELECT count(*) > 0 FROM pgqueue_message WHERE lost >= %s"
EARLY = """
SELECT count(*) FROM pgqueue_history child
JOIN pgqueue_dependency d ON d.child_id = child.id
JOIN pgqueue_history parent ON parent.id = d.parent_id
WHERE child.started_at < parent.finished_at
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.chaos)])
@pytest.mark.nightly
def test_a_server_that_restarts_amid_the_rescue_of_many_flows_leaves_none_behind(
    stage: Stage, rounds: int
) -> None:
    """DBOS: a crash 0.2 s into the recovery of workflows left some pending for ever."""
    store_flows(stage, 250)
    for number in range(1, rounds + 1):
        victim = stage.worker("--async", "250", "--threads", "1")
        eventually(lambda: stage.ask(RUNNING, 250) == (True,), within=30, what="all run")
        stage.kill(victim)
        rescuer = stage.worker("--async", "1", "--threads", "1")
        eventually(
            lambda lost=number: stage.ask(RESCUED, lost) == (True,), within=30, what="a rescue"
        )
        nap(0.2)
        stage.server.stop("immediate")
        stage.server.start()
        stage.kill(rescuer)

    with stage.fault():
        stage.worker("--async", "250", "--threads", "1")
    stage.end(within=90)
    assert stage.ask(ENDED) == (250, 250)
    assert stage.ask(EARLY) == (0,)


def store_flows(stage: Stage, count: int) -> None:
    """Store flows of two members: one waits for some seconds, and then the other one runs."""
    parents, children = stage.numbers("waiting", count), stage.numbers("plain", count)
    with closing(stage.server.connect()) as connection:
        for parent, child in zip(parents, children, strict=True):
            Graph(
                connection,
                {"p": "", "c": "p"},
                each={
                    "p": {"task": "tests.chaos.tasks.waiting", "payloads": [payload(parent, 8)]},
                    "c": {"task": "tests.chaos.tasks.plain", "payloads": [payload(child, 0)]},
                },
                max_attempts=1000,
            )


def payload(number: int, seconds: float) -> str:
    return json.dumps({"args": [number, seconds], "kwargs": {}})


def amid_flows(stage: Stage) -> None:
    """Return at some moment while many members wait."""
    nap(stage.random.uniform(0.1, 0.8))
    eventually(lambda: stage.ask(WAITING) == (True,), within=60, what="members wait")


@pytest.mark.chaos
@pytest.mark.parametrize("statement", ["flows.advance", "flows.copy_dependencies"])
def test_a_worker_killed_as_it_moves_flows_on_leaves_nothing_behind(
    stage: Stage, statement: str
) -> None:
    stage.flows()
    proxy = stage.proxy()

    victim = stage.worker(port=proxy.port)
    for _ in range(3):
        with stage.fault():
            proxy.meddler = killing(stage, victim, statement)
            eventually(lambda each=victim: not each.is_alive, within=60, what="it is killed")
            proxy.meddler = None
            victim = stage.worker(port=proxy.port)

    stage.end()


def killing(stage: Stage, victim: Process, statement: str) -> Callable[[str, Sequence[str]], None]:
    """Return what kills a worker as it sends a statement. The server gets it all the same."""

    def kill(sent: str, _: Sequence[str]) -> None:
        if victim.is_alive and statement in names_of(sent):
            stage.kill(victim)

    return kill


@pytest.mark.chaos
def test_statements_of_flows_that_are_cut_off_are_done_again(stage: Stage) -> None:
    proxy = stage.proxy()
    stage.flows(port=proxy.port)
    for _ in range(2):
        stage.worker(port=proxy.port)

    with stage.fault():
        moments = [Terminate("before"), Terminate("within"), Terminate("after")]
        for moment in moments:
            names = ["flows.advance", "flows.block", "flows.children", "route.take"]
            proxy.meddler = cutting = Often(names, moment, stage.random, share=0.1)
            eventually(
                lambda each=cutting: each.met["flows.advance"] >= 3,
                within=60,
                what=f"{moment} is met",
            )
        proxy.meddler = None

    stage.end()
