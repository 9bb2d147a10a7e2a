"""Steps of several runs that share a commit: each run learns about its own step only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from psycopg import DataError

from pgqueue import DurableContext, LeaseLost, TaskTimeout, task
from pgqueue.database.connections import Session, connect
from pgqueue.durable.records import Records
from pgqueue.engine import lease
from pgqueue.engine import steps as engine
from pgqueue.engine.steps import DoneStep, StoredStep, store_done
from pgqueue.engine.values import Claim
from pgqueue.models import Step
from pgqueue.worker.step_recorder import StepRecorder
from tests.durable.running import durable
from tests.eventually import eventually
from tests.factories import OVER, Connection, run

pytestmark = pytest.mark.django_db(transaction=True)

Write = Callable[[Connection, Sequence[DoneStep]], set[tuple[int, str]]]


@pytest.fixture
def connection() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def recorder() -> Iterator[StepRecorder]:
    recorder = StepRecorder(Session("default", name="test steps"))
    recorder.start()
    eventually(lambda: recorder._is_idle)
    yield recorder
    recorder.stop()
    assert recorder.stopped(timedelta(seconds=10))


class Gate:
    """Stands in for the statement: it holds the first batch until all other steps wait."""

    def __init__(self, write: Write = store_done) -> None:
        self.batches: list[list[int]] = []
        self.write = write
        self.open = threading.Event()

    def __call__(self, connection: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
        self.batches.append([each.claim.id for each in done])
        if len(self.batches) == 1:
            assert self.open.wait(20)
            return store_done(connection, done)
        return self.write(connection, done)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(engine, "store_done", gate)
    return gate


def step(result: str = "7") -> StoredStep:
    return StoredStep("charge", 1, "step", result=result)


def store(recorder: StepRecorder, held: Claim, result: str = "7") -> StoredStep:
    """Store a step as a run does."""
    records = Records("default", held)
    records.share = recorder.store
    try:
        return records.store(step(result))
    finally:
        connections.close_all()


def together(
    recorder: StepRecorder, gate: Gate, held: Sequence[Claim], **results: str
) -> list[Future[StoredStep]]:
    """Store a step of each run: the first one alone, then the others in one statement.

    Args:
        results: of the run at this place, as `at_2`.
    """
    with ThreadPoolExecutor(len(held)) as pool:
        futures = [pool.submit(store, recorder, held[0])]
        eventually(lambda: gate.batches)
        for place, each in enumerate(held[1:], start=1):
            futures.append(pool.submit(store, recorder, each, results.get(f"at_{place}", "7")))
        eventually(lambda: len(recorder._waiting) == len(held) - 1)
        gate.open.set()
    assert [set(each) for each in gate.batches[1:]] == [{each.id for each in held[1:]}]
    return futures


def stored() -> set[int]:
    return set(Step.objects.filter(state="done").values_list("message_id", flat=True))


def test_steps_that_wait_share_a_commit(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    held = run(connection, 4)

    futures = together(recorder, gate, held)

    assert [each.result().result for each in futures] == ["7"] * 4
    assert stored() == {each.id for each in held}
    commits = connection.execute("SELECT DISTINCT xmin::text FROM pgqueue_step").fetchall()
    assert len(commits) == 2


def test_a_step_is_committed_before_its_run_goes_on(
    connection: Connection, recorder: StepRecorder
) -> None:
    [held] = run(connection)

    store(recorder, held)

    assert stored() == {held.id}


def test_a_lost_lease_concerns_its_own_run_only(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    [lost] = run(connection, lease=OVER)
    lease.rescue(connection, max_lost=3)
    connection.execute("UPDATE pgqueue_message SET state = 'dead'")
    first, other = run(connection, 2)

    futures = together(recorder, gate, [first, lost, other])

    with pytest.raises(LeaseLost):
        futures[1].result()
    assert futures[2].result().result == "7"
    assert stored() == {first.id, other.id}


def test_a_result_that_is_not_storable_concerns_its_own_run_only(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    first, bad, other = run(connection, 3)

    futures = together(recorder, gate, [first, bad, other], at_1='"\\u0000"')

    error = futures[1].exception()
    assert isinstance(error and error.__cause__, DataError)
    assert futures[2].result().result == "7"
    assert recorder._failures == 0
    assert stored() == {first.id, other.id}


def test_a_locked_message_holds_up_its_own_run_only(
    connection: Connection, recorder: StepRecorder
) -> None:
    locked, other = run(connection, 2)
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [locked.id])
            waits = pool.submit(store, recorder, locked)

            store(recorder, other)

            assert stored() == {other.id}
            assert not waits.done()
        assert waits.result(20).result == "7"
    assert stored() == {locked.id, other.id}


@pytest.mark.parametrize("is_committed", [True, False], ids=["answer lost", "statement lost"])
def test_each_run_knows_of_its_step_after_a_connection_was_lost(
    connection: Connection, recorder: StepRecorder, gate: Gate, is_committed: bool
) -> None:
    held = run(connection, 3)

    def lose(its: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
        if is_committed:
            store_done(its, done)
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [its.info.backend_pid])
        return store_done(its, done)

    gate.write = lose
    futures = together(recorder, gate, held)

    assert [each.result().result for each in futures] == ["7"] * 3
    assert list(Step.objects.values_list("tries", flat=True)) == [1] * 3


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "together"])
def test_steps_share_a_commit_again_after_a_connection_was_lost(
    connection: Connection, recorder: StepRecorder, gate: Gate, is_alone: bool
) -> None:
    gate.open.set()
    first, second, third = run(connection, 3)
    store(recorder, first)

    def lose(its: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
        its.close()
        return store_done(its, done)

    gate.write = lose
    with ThreadPoolExecutor(1) as pool:
        with nullcontext() if is_alone else recorder._writing:
            future = pool.submit(store, recorder, second)
            eventually(lambda: future.done() if is_alone else recorder._waiting)
        assert future.result(20).result == "7"
    gate.write = store_done
    eventually(lambda: recorder._failures == 0 and recorder._is_idle)

    assert recorder.store(third, step(), timedelta())
    assert stored() == {first.id, second.id, third.id}


def test_a_run_stores_by_itself_while_the_recorder_backs_off(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    [held] = run(connection)
    recorder._failures = 1

    store(recorder, held)

    assert stored() == {held.id}
    assert gate.batches == []


def test_a_run_stores_by_itself_while_the_recorder_is_stopped(connection: Connection) -> None:
    recorder = StepRecorder(Session("default", name="test steps"))
    before, after = run(connection, 2)

    store(recorder, before)
    recorder.start()
    recorder.stop()
    assert recorder.stopped(timedelta(seconds=10))
    store(recorder, after)

    assert stored() == {before.id, after.id}


def test_a_run_that_waits_while_the_recorder_stops_stores_by_itself(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    first, second = run(connection, 2)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(store, recorder, first)]
        eventually(lambda: gate.batches)
        recorder.tick = lambda: timedelta()  # type: ignore[method-assign]
        futures.append(pool.submit(store, recorder, second))
        eventually(lambda: recorder._waiting)
        recorder._take = list  # type: ignore[method-assign]
        recorder.stop()
        gate.open.set()
        assert [each.result(20).result for each in futures] == ["7"] * 2
    assert stored() == {first.id, second.id}


def test_a_thread_that_comes_alone_writes_at_once(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    gate.open.set()
    threads: list[threading.Thread] = []

    def write(its: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
        threads.append(threading.current_thread())
        return store_done(its, done)

    gate.write = write
    for each in run(connection, 3):
        store(recorder, each)

    assert threads == [threading.current_thread()] * 2


def test_a_timeout_that_interrupts_a_statement_leaves_no_answer_to_the_next_one(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    gate.open.set()
    first, second, third = run(connection, 3)
    store(recorder, first)

    def interrupt(its: Connection, done: Sequence[DoneStep]) -> set[tuple[int, str]]:
        its.pgconn.send_query(b"SELECT 1")
        raise TaskTimeout

    gate.write = interrupt
    with pytest.raises(TaskTimeout):
        store(recorder, second)
    gate.write = store_done
    assert recorder.store(third, step(), timedelta())

    assert stored() == {first.id, third.id}


def test_a_step_in_a_transaction_is_part_of_it(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    [held] = run(connection)
    records = Records("default", held)
    records.share = recorder.store

    with transaction.atomic():
        records.store(step())
        assert stored() == {held.id}
        transaction.set_rollback(True)

    assert stored() == set()
    assert gate.batches == []


def test_a_step_takes_its_side_values_along(
    connection: Connection, recorder: StepRecorder, gate: Gate
) -> None:
    [held] = run(connection)
    records = Records("default", held)
    records.share = recorder.store
    records.note_value(records.new("now", "value", result="1"))

    records.store(records.new("charge", "step", result="7"))

    assert list(Step.objects.order_by("number").values_list("name", flat=True)) == ["now", "charge"]


@pytest.mark.usefixtures("own_tasks")
def test_threads_of_a_worker_share_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = StepRecorder._write

    def writing(recorder: StepRecorder, taken: list[Any]) -> None:
        if not sizes:
            eventually(lambda: len(recorder._waiting) == 3)
        sizes.append(len(taken))
        write(recorder, taken)

    monkeypatch.setattr(StepRecorder, "_write", writing)

    @durable
    def paying(run: DurableContext) -> int:
        return run.step(charge)

    results = [paying.enqueue() for _ in range(4)]
    call_command("runworker", "--drain", "--threads", "4", verbosity=0)

    for each in results:
        each.refresh()
    assert [each.return_value for each in results] == [7] * 4
    assert sizes == [1, 3]


@pytest.mark.usefixtures("own_tasks")
@pytest.mark.parametrize("options", [[], ["--async=2"]], ids=["threads", "event loop"])
def test_a_worker_has_the_thread_from_its_first_durable_run_on(options: list[str]) -> None:
    @durable
    def paying(run: DurableContext) -> bool:
        run.step(charge)
        return has_thread()

    results = []
    for each in (sees_thread, paying, sees_thread, paying):
        results.append(each.enqueue())
        if len(results) % 2 == 0:
            call_command("runworker", "--drain", "--threads", "1", *options, verbosity=0)

    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [False, True, False, True]
    assert not has_thread()


def test_is_not_started_after_its_stop(recorder: StepRecorder) -> None:
    late = StepRecorder(Session("default", name="test steps"))
    late.stop()

    for each in (late, recorder, recorder):
        each.ensure_started()

    assert (late.ident, recorder.is_alive()) == (None, True)


@task
def sees_thread() -> bool:
    return has_thread()


def has_thread() -> bool:
    return any(each.name == "steprecorder" for each in threading.enumerate())


def charge() -> int:
    return 7
