"""The event log while those who publish, sequence and read it are killed, stopped and cut off."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.harness.logstage import LEASE, LogStage
from tests.chaos.harness.meddlers import Often
from tests.chaos.harness.processes import Process
from tests.chaos.harness.proxy import Terminate
from tests.chaos.harness.server import nap
from tests.chaos.harness.statements import names_of
from tests.eventually import eventually

SOON = LEASE + 1 + 3
"""A lease, and a look for what is free; and what a machine may need that has much else to do."""
ALSO = pytest.mark.chaos

INBOX = "SELECT count(*) FROM pgqueue_event_inbox"
HEAD = "SELECT max(position) FROM pgqueue_event"
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE datname = 'chaos' AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    ORDER BY random() LIMIT 2) chosen
"""
BY = 'SELECT count(*) FROM chaos_handled WHERE "group" = %s AND pid = %s'


@pytest.mark.parametrize("group", ["atomic", pytest.param("plain", marks=ALSO)])
def test_a_reader_killed_amid_a_handler_is_followed_within_its_lease(
    log_stage: LogStage, group: str
) -> None:
    stage = log_stage
    stage.publisher()
    victim = stage.reader(group)
    other = stage.reader(group)
    file = stage.publish(rests=60)
    eventually(Path(f"{file} began {group}").exists, within=30)

    with stage.taken_over(group, victim, within=SOON):
        stage.lose(victim)

    stage.handles(group, 100)
    assert stage.ask(BY, group, other.pid)[0] >= 100
    assert not Path(f"{file} rested {group}").exists()
    came_to = stage.end_log()
    # The plain handler had left its row before it rested.
    assert f"'{group}': 0" in came_to if group == "atomic" else "'plain': 0" not in came_to


@pytest.mark.chaos
@pytest.mark.parametrize("group", ["atomic", "batches", "plain"])
def test_readers_of_partitions_that_are_killed_lose_nothing(
    log_stage: LogStage, group: str
) -> None:
    stage = log_stage
    for _ in range(2):
        stage.publisher(rate=150)
    readers = [stage.reader(group, partitions=4) for _ in range(3)]

    for _ in range(4):
        eventually(
            lambda: all(1 <= len(stage.partitions_of(each)) <= 2 for each in readers),
            within=30,
            what=stage.later(lambda: f"balanced: {[stage.partitions_of(e) for e in readers]}"),
        )
        stage.handles(group, 100)
        victim = stage.random.choice(readers)
        with stage.taken_over(group, victim, within=SOON):
            stage.lose(victim)
        readers.remove(victim)
        readers.append(stage.reader(group, partitions=4))

    stage.end_log()


def kill_as_it_sends(
    stage: LogStage, is_the_moment: Callable[[str, Sequence[str]], bool]
) -> Process:
    """Kill a reader that sequences, as it sends a statement. The server gets it all the same."""
    stage.publisher()
    proxy = stage.proxy()
    victim = stage.reader("atomic", port=proxy.port)
    stage.handles("atomic", 50)

    def kill(sent: str, before: Sequence[str]) -> None:
        if victim.is_alive and is_the_moment(sent, before):
            stage.lose(victim)

    proxy.meddler = kill
    eventually(lambda: not victim.is_alive, within=30, what="it sequences, and is killed")
    stage.reader("atomic")
    return victim


@pytest.mark.chaos
@pytest.mark.parametrize(
    "moment",
    [
        lambda sent, _: "sequence.lead" in names_of(sent),
        lambda sent, _: "sequence.move" in names_of(sent),
        lambda sent, before: sent == "COMMIT" and "sequence.move" in names_of(before[-1]),
    ],
    ids=["as it takes the lock", "as it moves", "as it commits"],
)
def test_a_sequencer_that_is_killed_loses_and_repeats_nothing(
    log_stage: LogStage, moment: Callable[[str, Sequence[str]], bool]
) -> None:
    stage = log_stage
    with stage.recovers("atomic"):
        kill_as_it_sends(stage, moment)

    stage.handles("atomic", 200)
    stage.end_log()


@pytest.mark.chaos
def test_a_server_that_is_killed_between_publish_and_sequence_loses_nothing(
    log_stage: LogStage,
) -> None:
    stage = log_stage
    for _ in range(2):
        stage.publisher()
    for _ in range(3):
        before = stage.ask(INBOX)[0]
        eventually(lambda before=before: (stage.ask(INBOX) or (0,))[0] > before + 100)
        stage.server.stop("killed")
        nap(stage.random.uniform(0, 0.5))
        stage.server.start()
    assert stage.ask(INBOX)[0] > 300
    assert stage.ask(HEAD) == (None,)

    with stage.recovers("atomic", "plain"):
        stage.reader("atomic")
        stage.reader("plain")

    stage.end_log()


@pytest.mark.parametrize(
    "hows", [["killed"], pytest.param(["killed", "immediate", "killed", "fast"], marks=ALSO)]
)
def test_a_server_that_is_killed_while_it_is_read_loses_and_repeats_nothing(
    log_stage: LogStage, hows: list[str]
) -> None:
    stage = log_stage
    stage.publisher()
    groups = ["atomic", "plain"] if len(hows) == 1 else ["atomic", "batches", "plain"]
    for group in groups:
        stage.reader(group)

    for how in hows:
        for group in groups:
            stage.handles(group, 30)
        with stage.recovers(*groups):
            stage.server.stop(how)
            nap(stage.random.uniform(0, 0.5))
            stage.server.start()

    stage.end_log()


@pytest.mark.parametrize("group", [pytest.param("atomic", marks=ALSO), "plain"])
def test_a_reader_that_was_stopped_beyond_its_lease_is_fenced(
    log_stage: LogStage, group: str
) -> None:
    stage = log_stage
    stage.publisher(rate=100)
    first = stage.reader(group)
    other = stage.reader(group)
    file = stage.publish(rests=0.5)
    eventually(Path(f"{file} began {group}").exists, within=30)

    with stage.taken_over(group, first, within=SOON):
        first.signal(signal.SIGSTOP)
    stage.handles(group, 50)
    before = stage.ask(BY, group, other.pid)[0]
    assert before >= 50
    first.signal(signal.SIGCONT)
    eventually(Path(f"{file} rested {group}").exists, within=30, what="it goes on")

    stage.handles(group, 50)
    assert stage.partitions_of(first) == []
    assert stage.partitions_of(other) == [0]
    came_to = stage.end_log()
    # Its effect was undone where it was in the transaction that it could not commit.
    assert f"'{group}': 0" in came_to if group == "atomic" else "'plain': 0" not in came_to


@pytest.mark.chaos
def test_sessions_that_are_terminated_at_random_lose_and_repeat_nothing(
    log_stage: LogStage,
) -> None:
    stage = log_stage
    groups = ["atomic", "batches", "plain"]
    for _ in range(2):
        stage.publisher(rate=150)
    for group in groups:
        stage.reader(group, partitions=2)
    stage.reader("atomic", partitions=2)

    terminated = 0
    for _ in range(60):
        nap(stage.random.uniform(0, 0.3))
        terminated += stage.ask(TERMINATE)[0]
    with stage.recovers(*groups):
        terminated += stage.ask(TERMINATE)[0]

    stage.end_log()
    assert terminated > 60
    said = "\n".join([*stage.complaints, *(each.log for each in stage.others)])
    assert said.count("terminating connection") > 30


@pytest.mark.chaos
@pytest.mark.parametrize("group", ["atomic", "batches", "plain"])
def test_a_commit_of_a_cursor_whose_answer_is_lost_is_there_all_the_same(
    log_stage: LogStage, group: str
) -> None:
    stage = log_stage
    proxy = stage.proxy()
    stage.publisher(rate=100)
    stage.reader(group, port=proxy.port)
    stage.handles(group, 20)

    statement = "groups.commit" if group == "plain" else "COMMIT"
    behind = [] if group == "plain" else ["groups.commit"]
    with stage.recovers(group):
        proxy.meddler = losing = Often(
            [statement], Terminate("after"), stage.random, share=0.3, behind=behind
        )
        eventually(lambda: losing.times >= 10, within=60, what="ten have met it")
        proxy.meddler = None

    stage.end_log()
