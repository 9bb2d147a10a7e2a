"""The first process of several: what it does where the machine has no room, and what it hears."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from unittest.mock import Mock, patch

import pytest

from pgqueue import signals
from pgqueue.worker import stopping, supervisor
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.parent import WELL, SupervisorPipe
from pgqueue.worker.report import Reports
from pgqueue.worker.supervisor import Child, ProcessSlot, Supervisor
from tests.eventually import eventually
from tests.hearing import heard
from tests.system import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def errors() -> Iterator[list[Exception]]:
    """What services report."""
    with heard(signals.service_failed, "error") as errors:
        yield errors


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervisor]:
    """One of two processes, whose liveness file has no folder."""
    config = WorkerConfig(
        database="default",
        threads=1,
        processes=2,
        grace=timedelta(seconds=1),
        liveness_file=tmp_path / "gone" / "alive",
    )
    supervised = Supervisor(config)
    yield supervised
    supervised._requests.close()


def test_a_process_that_cannot_be_started_is_tried_again_later(
    supervised: Supervisor, errors: list[Exception]
) -> None:
    with patch.object(supervisor, "Child", side_effect=BlockingIOError("no process")) as child:
        supervised._fill()
        assert [str(error) for error in errors] == ["no process"] * 2
        supervised._fill()
        assert child.call_count == 2
        for slot in supervised._slots:
            assert monotonic() < slot.fill_at < monotonic() + 1
            slot.fill_at = 0

        child.side_effect = None
        supervised._fill()

    assert supervised._children() == [child.return_value] * 2


@pytest.mark.parametrize("is_here", [True, False], ids=["processes here", "a cluster"])
def test_a_signal_before_the_first_worker_lets_a_cluster_be_left_in_order(
    monkeypatch: pytest.MonkeyPatch, *, is_here: bool
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(stopping.os, "_exit", exits.append)
    config = WorkerConfig(
        database="default", threads=1, processes=2, grace=timedelta(), duties=False
    )
    cluster = Mock(services=[], wanted=Mock(return_value=0))
    supervised = Supervisor(config, pool=None if is_here else cluster)

    def prepare() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        requests.append(supervised._requests.count)
        supervised.stop()

    requests: list[int] = []
    monkeypatch.setattr(supervised, "_prepare", prepare)
    assert supervised.run()

    assert (exits, requests) == (([0], [0]) if is_here else ([], [1]))


@pytest.mark.parametrize(
    ("lived", "ended_well", "pauses"),
    [(0, False, True), (0, True, False), (supervisor.LASTING, False, False)],
    ids=["died young", "ended well", "died old"],
)
def test_the_next_one_comes_later_only_where_one_died_young(
    lived: float, ended_well: bool, pauses: bool
) -> None:
    slot = ProcessSlot()
    slot.child = Mock(started_at=monotonic() - lived, has_ended_well=ended_well)

    slot.vacate()

    assert (slot.fill_at > monotonic()) == pauses


@pytest.mark.parametrize("retires", [False, True])
def test_a_child_that_ends_a_drain_is_replaced_if_its_last_word_was_that_it_retires(
    supervised: Supervisor, retires: bool
) -> None:
    supervised._config = replace(supervised._config, drain=True)
    last = supervised._slots.pop()
    child = last.child = Mock(
        status=0,
        has_ended_well=True,
        retires=False,
        leaves_something=False,
        reports=Reports(),
        started_at=monotonic(),
    )
    child.listen.side_effect = lambda: setattr(child, "retires", retires)
    supervised._slots = [last]

    supervised._attend()

    assert supervised._slots == ([last] if retires else [])


def test_no_more_are_started_while_many_take_their_time_to_end(supervised: Supervisor) -> None:
    supervised._retiring = [Mock()] * 3

    with (
        patch.object(supervisor, "Child") as child,
        heard(signals.worker_crowded, "retiring") as said,
    ):
        supervised._fill()
        supervised._fill()
        before = child.call_count
        supervised._retiring = [Mock()] * 2
        supervised._fill()

    assert (before, child.call_count) == (0, 2)
    assert said == [3]


@pytest.mark.parametrize("is_stopping", [False, True], ids=["crowded", "stopping"])
def test_naps_beside_an_empty_place_while_it_starts_no_child(
    supervised: Supervisor, is_stopping: bool
) -> None:
    supervised._config = replace(supervised._config, liveness_file=None)
    supervised._retiring = [Mock(signs=[])] * 3
    if is_stopping:
        supervised._retiring = []
        supervised.stop()
        supervised._wait()  # which hears of it
    supervised._fill()
    began = monotonic()

    with patch.object(supervisor, "LOOK", timedelta(seconds=0.3)):
        supervised._wait()

    assert monotonic() - began >= 0.29


def test_where_no_place_is_left_no_child_is_said_to_be_missing(supervised: Supervisor) -> None:
    # As those that drain end, while others of them have retired.
    supervised._slots = []
    supervised._retiring = [Mock()]

    with heard(signals.worker_crowded, "retiring") as said:
        supervised._fill()

    assert said == []


@pytest.mark.parametrize("are_well", [[True, True], [True, False]])
def test_the_liveness_file_is_touched_while_each_process_is_well(
    supervised: Supervisor, tmp_path: Path, are_well: list[bool]
) -> None:
    path = tmp_path / "alive"
    supervised._config = replace(supervised._config, liveness_file=path)
    for slot, is_well in zip(supervised._slots, are_well, strict=True):
        slot.child = Mock(is_well=is_well, signs=[])

    with patch.object(supervisor, "LOOK", timedelta(seconds=0.01)):
        supervised._wait()

    assert path.exists() == all(are_well)


def test_a_process_that_says_nothing_for_a_while_is_not_taken_to_be_well() -> None:
    ours, its = multiprocessing.Pipe()
    with patch.multiple(
        supervisor.PROCESSES, Process=Mock(), Pipe=Mock(return_value=(ours, Mock()))
    ):
        child = Child(Mock(), None)
    at_first = child.is_well

    SupervisorPipe(its).say(WELL)
    child.listen()
    spoken = child.is_well
    child.heard_at -= supervisor.WELL_WITHIN

    assert (at_first, spoken, child.is_well) == (False, True, False)
    child.leave()
    its.close()


def test_a_process_without_free_files_still_says_that_it_is_well() -> None:
    ours, its = multiprocessing.Pipe()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        has_said = SupervisorPipe(its).say(WELL)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert has_said
    assert ours.recv_bytes() == WELL
    ours.close()
    its.close()


class TestAPlace:
    """Of one process after the other, as the liveness file has it."""

    def test_is_well_as_its_process_says(self) -> None:
        slot = ProcessSlot()
        slot.child = Mock(heard_at=monotonic(), is_well=True)
        well = slot.is_well
        slot.child.is_well = False

        assert (well, slot.is_well) == (True, False)

    def test_is_well_for_as_long_as_a_process_may_take_to_start(self) -> None:
        slot = ProcessSlot()
        empty = slot.is_well
        slot.child = Mock(heard_at=None, is_well=False)
        starting = slot.is_well
        slot._well_at -= supervisor.FILLED_WITHIN

        assert (empty, starting, slot.is_well) == (True, True, False)

    def test_is_well_while_a_process_takes_the_place_of_another_that_was(self) -> None:
        slot = ProcessSlot()
        slot._well_at -= supervisor.FILLED_WITHIN
        slot.child = Mock(heard_at=monotonic(), started_at=monotonic() - 60)

        slot.vacate()
        empty = slot.is_well
        slot.child = Mock(heard_at=None)

        assert (empty, slot.is_well) == (True, True)

    def test_is_not_well_where_processes_die_before_they_say_a_word(self) -> None:
        slot = ProcessSlot()
        slot._well_at -= supervisor.FILLED_WITHIN
        for _ in range(3):
            slot.child = Mock(heard_at=None, started_at=monotonic())
            slot.vacate()

        assert not slot.is_well

    def test_is_well_while_it_has_to_wait_for_those_that_retire(
        self, supervised: Supervisor
    ) -> None:
        supervised._retiring = [Mock()] * 3
        for slot in supervised._slots:
            slot._well_at -= supervisor.FILLED_WITHIN

        supervised._fill()

        assert all(slot.is_well for slot in supervised._slots)


def test_the_liveness_file_is_let_alone_where_each_process_dies_at_once(
    supervised: Supervisor, tmp_path: Path
) -> None:
    path = tmp_path / "alive"
    supervised._config = replace(supervised._config, liveness_file=path)

    def is_touched() -> bool:
        path.unlink(missing_ok=True)
        supervised._fill()
        supervised._wait()
        supervised._attend()
        return path.exists()

    # The second process of a place says as little as the first.
    with (
        patch.object(supervisor.child, "main", os.abort),
        patch.multiple(supervisor, FILLED_WITHIN=2.0, LONGEST_PAUSE=0.1),
        heard(signals.worker_died, "pid") as died,
    ):
        at_first = is_touched()
        eventually(lambda: not is_touched() and len(died) > 4, within=90)
        later = [is_touched() for _ in range(10)]
    for each in supervised._children():
        each.leave()

    assert at_first
    assert not any(later)


def test_a_process_that_cannot_reach_the_database_is_as_well_as_one_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # While the database is away, others in place of all of them would be no better.
    monkeypatch.setenv("DATABASE_URL", f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    child = Child(WorkerConfig(database="default", threads=1, grace=timedelta()), None)
    eventually(lambda: child.status is not None, within=30)

    child.listen()

    assert (child.status, child.is_well) == (1, True)
    child.leave()


def test_a_stop_while_the_database_is_away_cuts_no_task_short(
    supervised: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    monkeypatch.setattr(supervisor, "LASTING", 3600.0)  # a slow machine takes long to start them
    supervised._fill()
    children = supervised._children()
    eventually(lambda: all(each.status is not None for each in children), within=30)

    supervised.stop()
    stopped_at = monotonic()
    supervised._attend()

    assert [each.status for each in children] == [1, 1]
    assert not supervised._cut_short
    assert all(slot.fill_at > stopped_at for slot in supervised._slots)


def test_a_liveness_file_that_cannot_be_touched_is_reported(
    supervised: Supervisor, errors: list[Exception]
) -> None:
    with (
        patch.object(supervisor, "LOOK", timedelta(seconds=0.01)),
        patch.object(Supervisor, "_children", lambda self: [Mock(is_well=True, signs=[])]),
    ):
        supervised._wait()

    assert [type(error) for error in errors] == [FileNotFoundError]


class Cluster:
    """A pool that wants so many more, and starts what does nothing."""

    kill_after = timedelta()
    services = ()

    def __init__(self, wanted: int) -> None:
        self.more = wanted
        self.started: list[Mock] = []

    def start(self, config: WorkerConfig) -> Mock:
        self.started.append(Mock(signs=[]))
        return self.started[-1]

    def wanted(self, *, filled: int, empty: int) -> int:
        return min(self.more, empty)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_as_many_are_started_as_their_pool_wants_and_the_other_places_are_well(
    supervised: Supervisor, wanted: int
) -> None:
    pool = Cluster(wanted)
    supervised._pool = pool
    for slot in supervised._slots:
        slot._well_at -= supervisor.FILLED_WITHIN

    supervised._fill()
    pool.more = 0
    supervised._fill()

    assert len(pool.started) == wanted
    assert all(slot.is_well for slot in supervised._slots if not slot.child)


def test_naps_beside_empty_places_where_nobody_is_wanted(supervised: Supervisor) -> None:
    supervised._pool = Cluster(0)
    supervised._config = replace(supervised._config, liveness_file=None)
    began = monotonic()

    with patch.object(supervisor, "LOOK", timedelta(seconds=0.3)):
        supervised._wait()

    assert monotonic() - began >= 0.29
