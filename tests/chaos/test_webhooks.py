"""Webhooks while their endpoint, or the worker that posts, is gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

from tests.chaos.harness.logstage import LogStage
from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import nap
from tests.chaos.webhook import A_DAY
from tests.eventually import eventually
from tests.sse.serving import free_port

POSITIONS = "SELECT array_agg(position) FROM pgqueue_event"
STATES = "SELECT count(*), count(*) FILTER (WHERE state = 'dead') FROM pgqueue_message"
FAILED = "SELECT failing_since IS NOT NULL FROM pgqueue_webhook"
PAUSED = "SELECT paused FROM pgqueue_subscription WHERE name = 'shop'"
DONE = """
SELECT (SELECT count(*) FROM pgqueue_message) = 0
   AND (SELECT count(*) FROM pgqueue_history WHERE channel = 'webhooks' AND outcome = 'succeeded')
     = (SELECT count(*) FROM pgqueue_event)
"""


class Town:
    """A stage, and the endpoint that is there or not."""

    def __init__(self, stage: LogStage) -> None:
        self.stage = stage
        self.port = free_port()
        self.endpoints: list[Process] = []

    def open(self, status: int = 200) -> Process:
        """Have the endpoint answer."""
        arguments = ["-m", "tests.chaos.endpoint", str(self.port), str(status)]
        name = f"endpoint-{len(self.endpoints)}"
        self.endpoints.append(self.stage._process(name, arguments, None, {}, None))
        return self.endpoints[-1]

    def operate(self, *arguments: str) -> None:
        """Make or resume the webhook."""
        command = ["-m", "tests.chaos.webhook", *arguments]
        done = self.stage._process(f"webhook-{arguments[0]}", command, None, {}, None)
        assert done.exit_status(30) == 0, done.log

    def make(self) -> None:
        self.operate("make", f"http://127.0.0.1:{self.port}/")

    def lines(self) -> Iterable[tuple[int, str, int]]:
        """Return what endpoints said: a status, an id and a position."""
        for endpoint in self.endpoints:
            for line in endpoint.output:
                status, id, position = line.split()
                yield int(status), id, int(position)

    def check(self) -> None:
        """Look whether each event was taken, and always had the same id."""
        ids: dict[int, set[str]] = defaultdict(set)
        taken = set()
        for status, id, position in self.lines():
            ids[position].add(id)
            if status == 200:
                taken.add(position)
        [positions] = self.stage.ask(POSITIONS)
        assert taken == set(positions)
        assert {len(each) for each in ids.values()} == {1}
        assert len(set.union(*ids.values())) == len(positions)


@pytest.fixture
def town(log_stage: LogStage) -> Iterator[Town]:
    """The endpoint of a scenario."""
    town = Town(log_stage)
    yield town
    for endpoint in town.endpoints:
        endpoint.kill()


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.chaos)])
@pytest.mark.nightly
def test_an_endpoint_that_is_down_for_a_day_misses_nothing(town: Town, is_long: bool) -> None:
    stage = town.stage
    stage.environment["PGQUEUE_PAUSE_AFTER"] = str(A_DAY)
    worker = stage.worker()
    stage.publisher(rate=40)
    first = town.open()
    town.make()
    eventually(lambda: len(first.output) > 30, within=30, what="it posts")

    first.kill()
    eventually(lambda: stage.ask(FAILED) == (True,), within=30, what="it is noticed")
    nap(A_DAY / 4)
    second = town.open(503)
    if is_long:
        eventually(lambda: stage.ask(PAUSED) == (True,), within=60, what="it is paused")
        stage.kill(worker)
        worker = stage.worker()
        nap(A_DAY / 2)
    else:
        nap(A_DAY / 4)
    assert second.output
    second.kill()
    assert stage.ask(STATES)[1] == 0
    town.open()
    if is_long:
        assert stage.ask(PAUSED) == (True,)
        town.operate("resume")

    stage.end_log()
    eventually(lambda: stage.ask(DONE) == (True,), within=60, what="it posts the rest")
    assert stage.ask(PAUSED) == (False,)
    stage.retire(worker)
    town.check()


@pytest.mark.chaos
def test_whatever_is_killed_each_event_is_posted_and_keeps_its_id(town: Town) -> None:
    stage = town.stage
    worker, endpoint = stage.worker(), town.open()
    town.make()
    stage.publisher(rate=100)

    for _ in range(6):
        before = len(endpoint.output)
        eventually(lambda: len(endpoint.output) > before + 20, within=60, what="it posts")  # noqa: B023
        nap(stage.random.uniform(0, 0.3))
        if stage.random.random() < 0.5:
            stage.kill(worker)
            worker = stage.worker()
        else:
            endpoint.kill()
            endpoint = town.open()

    stage.end_log()
    eventually(lambda: stage.ask(DONE) == (True,), within=60, what="it posts the rest")
    stage.retire(worker)
    town.check()
