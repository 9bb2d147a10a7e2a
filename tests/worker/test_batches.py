"""Batch tasks: one run for several messages, each with an ending of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from signal import SIGTERM
from time import monotonic
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection

from pgqueue import Channel, Task, TaskContext, flow, signals
from pgqueue.calls.outcomes import Closed, HandedBack
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import connect
from pgqueue.engine import cancel
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import TaskResult, run_middleware
from pgqueue.worker.batch_runner import BatchRunner
from pgqueue.worker.deadline import OVERRUN
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.leased_batch import LeasedBatch
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.timeouts import Timeouts
from tests import batch_jobs, jobs
from tests.eventually import eventually
from tests.factories import claim
from tests.processes import Process, worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

THREADS_OR_LOOP = pytest.mark.parametrize("arguments", [[], ["--async", "2"]])


@pytest.fixture(autouse=True)
def runs() -> list[list[Any]]:
    batch_jobs.runs.clear()
    return batch_jobs.runs


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", *arguments, verbosity=0)


@contextmanager
def batch_worker(*arguments: str) -> Iterator[Process]:
    """A worker that has imported the batch tasks, as it imports the `tasks` modules of apps."""
    with worker(*arguments) as process:
        batch_jobs.without_a_wait.enqueue(0).wait(timeout=20)
        yield process


def statuses(results: list[TaskResult[Any]]) -> list[str]:
    for each in results:
        each.refresh()
    return [each.status for each in results]


class TestABatch:
    @pytest.mark.parametrize("arguments", [[], ["--threads", "1"], ["--async", "2"]])
    @pytest.mark.parametrize("job", [batch_jobs.double, batch_jobs.adouble])
    def test_is_one_run_and_each_message_has_its_result(
        self, job: Task[[int], Any], arguments: list[str], runs: list[list[Any]]
    ) -> None:
        results = job.enqueue_many([(number,) for number in range(20)])

        drain(*arguments)

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        assert [each.return_value for each in results] == [2 * number for number in range(20)]
        assert sorted(number for run in runs for number in run) == list(range(20))
        assert all(len(run) <= 10 for run in runs)
        assert len(runs) <= 4

    def test_is_run_once_it_is_full_although_its_wait_is_long(self, runs: list[list[Any]]) -> None:
        results = batch_jobs.of_three.enqueue_many([(number,) for number in range(6)])

        drain()

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        assert [len(run) for run in runs] == [3, 3]

    def test_that_does_not_fill_is_run_after_its_wait(self, runs: list[list[Any]]) -> None:
        batch_jobs.double.enqueue_many([(1,), (2,)])

        drain()

        assert sorted(map(sorted, runs)) == [[1, 2]]

    def test_without_a_wait_has_the_messages_of_one_claim(self, runs: list[list[Any]]) -> None:
        results = batch_jobs.without_a_wait.enqueue_many([(number,) for number in range(8)])

        drain("--threads", "8")

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        assert sorted(len(run) for run in runs)[-1] > 1

    def test_by_key_has_messages_of_one_key(self, runs: list[list[Any]]) -> None:
        for number in range(6):
            batch_jobs.by_key.using(key="even" if number % 2 == 0 else "odd").enqueue(number)

        drain()

        assert sorted(map(sorted, runs)) == [[0, 2, 4], [1, 3, 5]]

    def test_has_messages_of_the_same_options(self, runs: list[list[Any]]) -> None:
        batch_jobs.double.enqueue(1)
        batch_jobs.double.using(timeout=60).enqueue(2)

        drain()

        assert sorted(runs) == [[1], [2]]

    def test_gives_each_call_its_context_and_its_named_arguments(self) -> None:
        first = batch_jobs.describe.enqueue(1, a=3)
        second = batch_jobs.describe.enqueue(2)

        drain()

        statuses([first, second])
        assert first.return_value == f"{first.id} 1 ['a']"
        assert second.return_value == f"{second.id} 1 []"

    def test_leaves_other_tasks_alone(self, runs: list[list[Any]]) -> None:
        result = jobs.add.enqueue(1, 2)
        batch_jobs.double.enqueue_many([(1,), (2,)])

        drain("--threads", "1")

        result.refresh()
        assert result.return_value == 3
        assert sum(map(len, runs)) == 2

    def test_is_the_parent_of_no_message(self) -> None:
        batch_jobs.enqueue_another.enqueue_many([(1,), (2,)])

        drain()

        assert History.objects.get(task=batch_jobs.double.name).parent_id is None

    def test_sends_the_signals_of_each_message(self) -> None:
        finished = []

        def note(sender: object, context: Any, **rest: object) -> None:
            finished.append(context.id)

        signals.task_finished.connect(note)
        try:
            results = batch_jobs.double.enqueue_many([(1,), (2,)])
            drain()
        finally:
            signals.task_finished.disconnect(note)

        assert sorted(finished) == sorted(each.id or "" for each in results)

    def test_is_no_larger_than_a_limit_of_running_messages(self, runs: list[list[Any]]) -> None:
        Channel("default").policy(max_running=3)
        results = batch_jobs.double.enqueue_many([(number,) for number in range(6)])

        drain()

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        assert max(map(len, runs)) <= 3

    def test_has_one_message_of_an_ordered_key(self, runs: list[list[Any]]) -> None:
        for number in range(3):
            batch_jobs.double.using(key="a", ordered=True).enqueue(number)

        drain()

        assert runs == [[0], [1], [2]]

    @THREADS_OR_LOOP
    def test_is_deferred_as_a_whole_by_its_function(
        self, arguments: list[str], runs: list[list[Any]]
    ) -> None:
        results = batch_jobs.defer_once.enqueue_many([(1,), (2,)])

        drain(*arguments)

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        assert all(each.attempt == 2 and not each.errors for each in results)

    @pytest.mark.parametrize("job", [batch_jobs.grow, batch_jobs.grow_atomically])
    def test_lets_each_message_grow_its_flow(self, job: Task[[int], Any]) -> None:
        with flow("grows") as f:
            results = [f.enqueue(job, 1), f.enqueue(job, 2)]

        drain()

        assert set(statuses(results)) == {Outcome.SUCCEEDED}
        added = History.objects.get(task=jobs.add.name)
        assert added.result == 101

    def test_enters_what_surrounds_the_run_of_each_message(self) -> None:
        events: list[tuple[str, str]] = []

        @contextmanager
        def note(context: TaskContext) -> Iterator[None]:
            events.append(("enter", context.id))
            yield
            events.append(("leave", context.id))

        run_middleware.around_runs(note)
        try:
            results = batch_jobs.double.enqueue_many([(1,), (2,)])
            drain()
        finally:
            run_middleware.remove(note)

        assert [what for what, _ in events] == ["enter", "enter", "leave", "leave"]
        assert {id for _, id in events} == {each.id for each in results}

    def test_shows_what_surrounds_the_run_the_error_of_its_call(self) -> None:
        errors: dict[str, str] = {}

        @contextmanager
        def note(context: TaskContext) -> Iterator[None]:
            try:
                yield
            except ValueError as error:
                errors[context.id] = str(error)
                raise

        run_middleware.around_runs(note)
        try:
            _, odd = batch_jobs.fail_odd.using(max_attempts=1).enqueue_many([(2,), (3,)])
            drain()
        finally:
            run_middleware.remove(note)

        assert errors == {odd.id: "3 is odd"}


class TestAFailure:
    @THREADS_OR_LOOP
    def test_of_one_call_is_its_own(self, arguments: list[str], runs: list[list[Any]]) -> None:
        results = batch_jobs.fail_odd.enqueue_many([(2,), (3,), (4,)])

        drain(*arguments)

        assert statuses(results) == [Outcome.SUCCEEDED, State.DEAD, Outcome.SUCCEEDED]
        assert [len(each.errors) for each in results] == [0, 2, 0]
        assert "3 is odd" in results[1].errors[0].traceback
        assert [each.return_value for each in results if each.status != State.DEAD] == [2, 4]
        assert sorted(map(len, runs)) == [1, 3]

    def test_may_discard_or_defer_its_message(self) -> None:
        results = batch_jobs.fail_odd.enqueue_many([(100,), (102,), (4,)])

        drain()

        assert statuses(results) == [Outcome.DISCARDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED]
        assert [each.attempt for each in results] == [1, 2, 1]

    @THREADS_OR_LOOP
    def test_of_the_function_fails_all_calls_but_those_that_failed_before(
        self, arguments: list[str]
    ) -> None:
        first = batch_jobs.fail_all.using(priority=1).enqueue(1)
        others = batch_jobs.fail_all.enqueue_many([(2,), (3,)])

        drain(*arguments)

        assert set(statuses([first, *others])) == {State.DEAD}
        texts = [each.errors[0].traceback for each in [first, *others]]
        assert ["its own" in text for text in texts] == [True, False, False]
        assert ["of all" in text for text in texts] == [False, True, True]

    def test_of_the_arguments_is_the_messages_own(self) -> None:
        good, bad = batch_jobs.double.using(max_attempts=1).enqueue_many([(1,), (2,)])
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pgqueue_message SET payload = '{\"args\": []}' WHERE id = %s", [bad.id]
            )

        drain()

        assert statuses([good, bad]) == [Outcome.SUCCEEDED, State.DEAD]

    def test_of_the_list_of_results_is_dead_at_once(self) -> None:
        results = batch_jobs.return_too_few.enqueue_many([(1,), (2,)])

        drain()

        assert set(statuses(results)) == {State.DEAD}
        assert "returned 1 results for 2 calls" in results[0].errors[0].traceback

    def test_shows_redacted_values_of_no_message(self) -> None:
        results = batch_jobs.quote_all.enqueue_many([("4111-1111",), ("4222-2222",)])

        drain()

        assert set(statuses(results)) == {State.DEAD}
        for each in results:
            assert "no card of these" in each.errors[0].traceback
            assert "4111" not in each.errors[0].traceback
            assert "4222" not in each.errors[0].traceback


class TestAnAtomicBatch:
    def test_is_one_transaction_with_its_endings(self, runs: list[list[Any]]) -> None:
        results = batch_jobs.make_groups.enqueue_many([("a",), ("fail",), ("b",)])

        drain()

        assert statuses(results) == [Outcome.SUCCEEDED, State.DEAD, Outcome.SUCCEEDED]
        assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b"]
        assert len(runs) == 1

    def test_is_rolled_back_as_a_whole_by_an_error(self) -> None:
        results = batch_jobs.make_groups.enqueue_many([("a",), ("raise",)])

        drain()

        assert set(statuses(results)) == {State.DEAD}
        assert not Group.objects.exists()

    def test_leaves_nothing_if_the_lease_of_one_message_is_lost(
        self, runs: list[list[Any]]
    ) -> None:
        stolen = batch_jobs.steal_the_first.using(priority=1).enqueue("stolen")
        others = batch_jobs.steal_the_first.enqueue_many([("a",), ("b",)])

        drain()
        assert not Group.objects.exists()
        Message.objects.all().run_now()
        drain()

        # The theft was rolled back with all writes, so that each message ran once more.
        assert len(runs) == 2
        assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b", "stolen"]
        assert set(statuses([stolen, *others])) == {Outcome.SUCCEEDED}
        assert all(each.errors == [] for each in [stolen, *others])


class TestATimeout:
    @pytest.mark.parametrize(
        ("job", "arguments"),
        [
            (batch_jobs.sleep_in_the_database, []),
            (batch_jobs.await_for_ever, []),
            (batch_jobs.await_for_ever, ["--async", "2"]),
        ],
    )
    def test_fails_each_message_of_the_batch(
        self, job: Task[[int], Any], arguments: list[str]
    ) -> None:
        results = job.enqueue_many([(1,), (2,)])

        drain(*arguments)

        assert set(statuses(results)) == {State.DEAD}
        assert all("TaskTimeout" in each.errors[0].traceback for each in results)


def test_an_atomic_batch_waits_for_no_transaction_that_has_a_message_locked() -> None:
    batch_jobs.make_groups.enqueue_many([("a",), ("b",)])
    with connect("default", name="test") as session:
        claims = claim(session)
    batch = LeasedBatch([LeasedMessage(each, monotonic()) for each in claims])
    quarantine = Quarantine("default", Leases(), max_lost=3)
    runner = BatchRunner(Runner("default", Timeouts(), Handlers("default"), quarantine, Tally()))

    with (
        closing(connect("default", name="test")) as operator,
        ThreadPoolExecutor(1) as pool,
        operator.transaction(force_rollback=True),
    ):
        cancel.cancel(operator, [claims[1].id])
        ended = pool.submit(runner.run, batch).result(20)

    assert [type(ending) for _, ending in ended] == [HandedBack] * 2
    assert not any(each.lost for each in batch.messages)
    assert [type(ending) for _, ending in runner.run(batch)] == [Closed] * 2
    assert Group.objects.count() == 2


class TestAHardTimeout:
    @pytest.mark.parametrize(
        ("job", "arguments"),
        [
            (batch_jobs.receive, []),
            (batch_jobs.receive_atomically, []),
            (batch_jobs.receive_in_the_loop, ["--async", "2"]),
        ],
    )
    def test_fails_each_message_of_the_batch(
        self, job: Task[[int], Any], arguments: list[str]
    ) -> None:
        with batch_worker("--grace", "1", *arguments) as process:
            results = job.enqueue_many([(1,), (2,)])

            assert process.exit_status(within=30) == OVERRUN

        assert set(statuses(results)) == {State.DEAD}
        assert all(len(each.errors) == 1 for each in results)
        assert not Group.objects.exists()


class TestAWorker:
    def test_hands_back_gathered_messages_uncharged(self) -> None:
        with batch_worker() as process:
            results = batch_jobs.wait_a_minute.enqueue_many([(number,) for number in range(5)])
            eventually(lambda: Message.objects.filter(state=State.RUNNING).count() == 5)

            process.signal(SIGTERM)

            assert process.exit_status() == 0

        assert set(statuses(results)) == {State.READY}
        assert {each.failures for each in Message.objects.all()} == {0}
        assert all(each.errors == [] for each in results)

    @pytest.mark.parametrize(
        ("job", "arguments"),
        [(batch_jobs.wait_for_cancel, []), (batch_jobs.await_cancel, ["--async", "2"])],
    )
    def test_cancels_one_message_of_a_batch(
        self, job: Task[[int], Any], arguments: list[str]
    ) -> None:
        with batch_worker(*arguments):
            results = job.enqueue_many([(1,), (2,)])
            eventually(Group.objects.exists)
            results[0].cancel()
            eventually(lambda: not Message.objects.exists())

        assert statuses(results) == [Outcome.CANCELLED, Outcome.SUCCEEDED]
        assert results[1].return_value == "2"

    def test_runs_a_message_that_has_lost_a_lease_without_others(
        self, runs: list[list[Any]]
    ) -> None:
        first, *_ = batch_jobs.double.enqueue_many([(number,) for number in range(3)])
        Message.objects.filter(pk=first.id).update(lost=1)

        drain()

        assert sorted(map(sorted, runs)) == [[0], [1, 2]]
