"""A worker of several processes: they die and are replaced, retire, go with their parent."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from pgqueue.database.connections import connect
from pgqueue.engine import cancel
from pgqueue.models import History, Message, Worker
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from tests import jobs, system
from tests.eventually import eventually
from tests.factories import OVER, run
from tests.processes import own_connections, starting, worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SIGINT, SIGTERM, SIGKILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
AT_NIGHT = partial(pytest.param, marks=pytest.mark.nightly)


def pids() -> list[int]:
    return list(Worker.objects.order_by("started_at").values_list("pid", flat=True))


def serve(count: int) -> list[int]:
    """Wait for so many processes; return them."""
    eventually(lambda: len(pids()) == count, within=20, what=f"not {count} processes serve")
    return pids()


def began() -> list[int]:
    """Return the processes in which tasks have begun."""
    names = Group.objects.filter(name__endswith=" began").values_list("name", flat=True)
    return [int(name.split()[0]) for name in names]


def count(service: str, *, wait_event_type: str = "%") -> int:
    """Return how many connections the processes have for it; or how many that wait so."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s "
            "AND coalesce(wait_event_type, '') LIKE %s",
            [f"pgqueue {service}", wait_event_type],
        )
        return int(cursor.fetchone()[0])


def sleeps_in_the_database() -> bool:
    """Whether a task has the server wait."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_stat_activity "
            "WHERE wait_event = 'PgSleep' AND datname = current_database()"
        )
        return cursor.fetchone() is not None


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Have a process do nothing in the block, not even end; it is dead after it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)


class TestProcesses:
    def test_share_the_work(self) -> None:
        with worker("--processes", "2", "--threads", "1", forked=False):
            serve(2)

            jobs.sleep_and_sign.enqueue_many([(0.3,)] * 4)

            eventually(lambda: History.objects.count() == 4, within=20)
        assert len(set(began())) == 2

    def test_drain_together(self) -> None:
        jobs.add.enqueue_many([(each,) for each in range(100)])

        with worker("--processes", "2", "--drain", forked=False) as process:
            assert process.exit_status(within=30) == 0

        assert History.objects.count() == 100
        assert not Worker.objects.exists()

    @pytest.mark.parametrize("number", [SIGTERM, AT_NIGHT(SIGINT)])
    def test_end_what_runs_when_their_parent_is_to_stop(self, number: signal.Signals) -> None:
        with worker("--processes", "2", "--threads", "1") as process:
            serve(2)
            jobs.sleep_and_sign.enqueue_many([(1,)] * 3)
            eventually(lambda: len(began()) == 2)

            process.signal(number)

            assert process.exit_status() == 0
        assert History.objects.filter(outcome=Outcome.SUCCEEDED).count() == 2
        assert Message.objects.get().state == State.READY
        assert not Worker.objects.exists()

    def test_hand_back_at_once_what_runs_when_it_is_asked_twice(self) -> None:
        with worker("--processes", "2", "--threads", "1") as process:
            serve(2)
            jobs.sleep_and_sign.enqueue_many([(60,)] * 2)
            eventually(lambda: len(began()) == 2)

            process.signal(SIGTERM)
            eventually(lambda: "fetcher" not in own_connections())
            process.signal(SIGTERM)

            assert process.exit_status(within=8) == 0
        rows = Message.objects.values_list("state", "lost", "failures")
        assert list(rows) == [("ready", 0, 0)] * 2

    @pytest.mark.parametrize(
        ("grace", "numbers", "within"),
        [("60", [SIGTERM, SIGINT], 8), ("1", [SIGTERM], 9)],
        ids=["the second signal", "the grace period"],
    )
    def test_are_killed_soon_after_it_if_they_do_not_hear_a_signal(
        self, grace: str, numbers: list[signal.Signals], within: float
    ) -> None:
        arguments = ["--processes", "2", "--threads", "1", "--grace", grace]
        with worker(*arguments, lease=3600) as process:
            serve(2)
            jobs.sleep_and_sign.enqueue_many([(60,)] * 2)
            eventually(lambda: len(began()) == 2)
            with stopped(began()[0]):
                for number in numbers:
                    process.signal(number)

                assert process.exit_status(within) == 1

        assert Message.objects.filter(state=State.READY).count() == 2

    def test_take_a_signal_that_all_of_them_get_for_one(self) -> None:
        # As systemd sends it, or a terminal.
        with worker("--processes", "2", "--threads", "1") as process:
            children = serve(2)
            jobs.sleep_and_sign.enqueue_many([(1.5,)] * 2)
            eventually(lambda: len(began()) == 2)

            for pid in [process.popen.pid, *children]:
                os.kill(pid, SIGTERM)

            assert process.exit_status() == 0
        assert History.objects.filter(outcome=Outcome.SUCCEEDED).count() == 2

    def test_stop_when_their_parent_is_killed(self) -> None:
        with worker("--processes", "2", "--threads", "1", forked=False) as process:
            children = serve(2)
            jobs.sleep_and_sign.enqueue(1)
            eventually(began)

            process.signal(SIGKILL)
            process.popen.wait()

            eventually(lambda: not any(map(system.is_alive, children)), within=20)
        assert History.objects.get().outcome == Outcome.SUCCEEDED
        assert not Worker.objects.exists()


class TestAskedToStopWhileTheyStart:
    @pytest.mark.parametrize("number", [SIGTERM, AT_NIGHT(SIGINT)])
    @pytest.mark.parametrize("moment", [0, AT_NIGHT(0.03), 0.1, AT_NIGHT(0.3), 1, AT_NIGHT(2)])
    def test_they_end_well(self, number: signal.Signals, moment: float) -> None:
        with starting("--processes", "2", "--threads", "1") as process:
            # The first one tracks what they share, and ignores signals.
            eventually(lambda: len(system.children(process.popen.pid)) > 1, within=20)
            time.sleep(moment)

            process.signal_group(number)

            assert process.exit_status(within=20) == 0
        assert "Traceback" not in process.log
        assert "died" not in process.log

    def test_what_they_start_themselves_hears_signals(self) -> None:
        with worker("--processes", "2", "--threads", "1"):
            for pid in serve(2):
                assert not system.blocks(pid, SIGTERM)
                assert not system.blocks(pid, SIGINT)


class TestAChildThatDies:
    def test_is_replaced(self) -> None:
        with worker("--processes", "2") as process:
            first, second = serve(2)

            os.kill(first, SIGKILL)

            eventually(lambda: second in pids() and first not in pids() and len(pids()) == 2)
            process.signal(SIGTERM)
            assert process.exit_status() == 0
        assert f"The process {first} died with status -9" in process.log

    def test_loses_its_messages_at_once(self) -> None:
        # The lease is out in an hour.
        with worker("--processes", "2", "--threads", "2", lease=3600):
            serve(2)
            jobs.sleep_and_sign.enqueue_many([(1.5,)] * 4)
            eventually(lambda: len(began()) == 4)
            victim = began()[0]

            os.kill(victim, SIGKILL)

            eventually(lambda: Message.objects.filter(lost=1, state=State.RUNNING).count() == 2)
            eventually(lambda: History.objects.count() == 4, within=20)
        lost = Counter(History.objects.values_list("lost", flat=True))
        assert lost == {0: 2, 1: 2}

    def test_is_rescued_by_a_supervisor_whose_processes_live_shorter_than_a_lease(self) -> None:
        with closing(connect("default", name="test")) as other:
            run(other, lease=OVER)
        # Each process runs one task: none lives for a whole lease.
        jobs.sleep_and_sign.using(priority=1).enqueue_many([(0.2,)] * 60)

        with worker("--max-tasks", "1", "--threads", "1", lease=6):
            eventually(lambda: Message.objects.filter(lost=1).exists(), within=25)

            assert Message.objects.filter(priority=1).exists()  # they went on until then

    def test_loses_what_it_had_locked_when_the_server_has_noticed(self) -> None:
        # The statement goes on for as long as it takes, whichever session has sent it.
        jobs.sleep_in_the_database.enqueue(4)
        with worker("--processes", "2", "--threads", "1", lease=3600):
            victims = serve(2)
            eventually(sleeps_in_the_database)

            for victim in victims:
                os.kill(victim, SIGKILL)

            eventually(lambda: Message.objects.filter(lost=1).exists(), within=20)
            eventually(lambda: History.objects.exists(), within=20)
        assert History.objects.get().lost == 1

    def test_keeps_no_process_from_stopping_though_the_database_says_nothing(self) -> None:
        with (
            worker("--processes", "2", "--grace", "0.2") as process,
            closing(connect("default", name="test")) as other,
        ):
            first, _ = serve(2)
            other.execute("BEGIN; LOCK TABLE pgqueue_message")
            os.kill(first, SIGKILL)
            eventually(lambda: count("rescuer", wait_event_type="Lock"))

            process.signal(SIGTERM)

            assert process.exit_status(within=10) == 0

    def test_that_was_to_retire_is_not_missed(self) -> None:
        with worker("--processes", "2") as process:
            first, _ = serve(2)

            os.kill(first, SIGTERM)

            eventually(lambda: first not in pids() and len(pids()) == 2)
            process.signal(SIGTERM)
            assert process.exit_status() == 0
        assert "died" not in process.log


@pytest.fixture
def slow_history() -> Iterator[None]:
    """Have a settle take some time, as beside a slow disk."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    PERFORM pg_sleep(0.2);
                    RETURN NULL;
                END $$;
            CREATE TRIGGER take_time AFTER INSERT ON pgqueue_history
                FOR EACH STATEMENT EXECUTE FUNCTION take_time();
            """
        )
        yield
        cursor.execute("DROP FUNCTION take_time CASCADE")


class TestPoison:
    """A message that kills its process, among others that were claimed with it."""

    @pytest.mark.parametrize(
        "killing", [jobs.kill_its_worker, *map(AT_NIGHT, [jobs.crash, jobs.exit_quietly])]
    )
    def test_is_the_only_one_that_dies(self, killing: Task[..., None]) -> None:
        jobs.add.enqueue_many([(each,) for each in range(50)])
        poison = killing.enqueue()
        jobs.add.enqueue_many([(each,) for each in range(50)])

        with worker("--processes", "2", "--threads", "4", lease=60):
            eventually(lambda: Message.objects.dead().exists(), within=60)
            eventually(lambda: History.objects.count() == 100, within=60)

        message = Message.objects.get()
        assert (message.pk, message.lost, message.failures) == (int(poison.id), 3, 0)
        assert set(History.objects.values_list("outcome", flat=True)) == {Outcome.SUCCEEDED}

    def test_does_not_begin_before_it_is_written_how_others_ended(self, slow_history: None) -> None:
        # Else they, too, had begun when it was lost, and are dead on their last life.
        innocent = [jobs.add.enqueue(each) for each in range(5)]
        poison = jobs.kill_its_worker.enqueue()
        Message.objects.update(lost=2)

        with worker("--processes", "2", "--threads", "1", lease=60):
            eventually(lambda: Message.objects.dead().filter(pk=poison.id).exists(), within=60)
            eventually(lambda: History.objects.count() == 5, within=20)

        assert set(History.objects.values_list("pk", flat=True)) == {int(i.id) for i in innocent}

    def test_is_not_left_behind_by_those_who_drain(self) -> None:
        poison = jobs.exit_quietly.enqueue()

        with worker("--processes", "2", "--threads", "1", "--drain", lease=60) as process:
            assert process.exit_status(within=60) == 0

        assert Message.objects.dead().get().pk == int(poison.id)

    def test_is_alone_in_its_process_on_its_last_life(self) -> None:
        jobs.sleep_and_sign.enqueue_many([(0.3,)] * 6)
        suspect = jobs.sleep_and_sign.enqueue(0.5)
        Message.objects.filter(pk=suspect.id).update(lost=2)

        with worker("--threads", "4"):
            eventually(lambda: History.objects.count() == 7, within=20)

        alone = History.objects.get(pk=suspect.id)
        beside = History.objects.exclude(pk=suspect.id).filter(
            started_at__lt=alone.finished_at, finished_at__gt=alone.started_at
        )
        assert not beside.exists()


class TestRetiring:
    def test_after_so_many_tasks_another_process_goes_on(self) -> None:
        jobs.pid.enqueue_many([()] * 30)

        with worker("--threads", "1", "--max-tasks", "10", "--drain") as process:
            assert process.exit_status(within=60) == 0

        runs = Counter(History.objects.values_list("result", flat=True))
        assert sum(runs.values()) == 30
        assert 3 <= len(runs) <= 4
        assert max(runs.values()) <= 11
        assert not History.objects.filter(lost__gt=0).exists()
        assert process.log.count("has come to 10 tasks; another takes its place") >= 2

    def test_when_it_is_too_large_another_process_goes_on(self) -> None:
        with worker("--max-memory", "400") as process:
            (first,) = serve(1)

            jobs.grow.enqueue(500)

            eventually(lambda: pids() and first not in pids(), within=20)
            process.signal(SIGTERM)
            assert process.exit_status() == 0
        assert History.objects.get().outcome == Outcome.SUCCEEDED
        assert f"The process {first} has come to " in process.log

    def test_one_that_is_too_large_from_the_beginning_says_so_and_works_for_a_while(self) -> None:
        with worker("--max-memory", "1") as process:
            (first,) = serve(1)
            since = time.monotonic()

            eventually(lambda: pids() and first not in pids(), within=20)

            assert time.monotonic() - since > 3
            process.signal(SIGTERM)
            assert process.exit_status() == 0
        assert f"The process {first} has " in process.log
        assert "megabytes before it runs anything" in process.log

    def test_it_gives_a_long_task_all_the_time_it_takes(self) -> None:
        with (
            worker("--threads", "2", "--max-tasks", "1", "--grace", "0.1"),
            closing(connect("default", name="test")) as other,
        ):
            (first,) = serve(1)
            other.execute("BEGIN; LOCK TABLE auth_group")
            long = jobs.leave.enqueue("a group")
            eventually(Message.objects.filter(pk=long.id, state=State.RUNNING).exists)

            jobs.add.enqueue(1)

            eventually(lambda: len(pids()) == 2, within=30, what="its place is empty")
            time.sleep(1)
            other.execute("COMMIT")
            eventually(lambda: History.objects.count() == 2, within=20)
            eventually(lambda: first not in pids())
        assert set(History.objects.values_list("attempt", flat=True)) == {1}

    def test_it_writes_down_what_another_transaction_has_locked(self) -> None:
        result = jobs.sleep_and_sign.enqueue(0.3)
        with (
            worker("--processes", "1", "--max-tasks", "1") as process,
            closing(connect("default", name="test")) as operator,
        ):
            (first,) = serve(1)
            eventually(began)
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(result.id)])
                eventually(lambda: "another takes its place" in process.log)
                # Longer than it waits for an ending that a trigger refuses.
                time.sleep(3)
                assert first in pids()
            eventually(lambda: first not in pids())

        message = History.objects.get()
        assert (message.outcome, message.attempt, message.lost) == ("succeeded", 1, 0)

    def test_it_waits_for_a_lock_no_longer_than_the_grace_period(self) -> None:
        result = jobs.sleep_and_sign.enqueue(0.3)
        with (
            worker("--processes", "1", "--max-tasks", "1", "--grace", "1"),
            closing(connect("default", name="test")) as operator,
        ):
            (first,) = serve(1)
            eventually(began)
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(result.id)])

                eventually(lambda: first not in pids(), within=20)

    def test_it_hands_back_at_once_what_was_locked_for_a_moment(self) -> None:
        # Where many have ended, more are claimed than begin.
        jobs.add.enqueue_many([(1,)] * 50)
        *_, third = jobs.sleep_and_sign.enqueue_many([(60,), (1.5,), (60,)])
        waits = Message.objects.filter(pk=third.id)
        with (
            worker("--threads", "2", "--processes", "1", "--max-tasks", "51") as process,
            closing(connect("default", name="test")) as operator,
        ):
            eventually(lambda: len(began()) == 2)
            eventually(lambda: waits.get().state == State.RUNNING)
            first = waits.get().worker_id
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(third.id)])
                eventually(lambda: "another takes its place" in process.log)
                eventually(lambda: len(pids()) == 2, within=20)

            eventually(lambda: waits.get().worker_id != first)

        assert waits.get().lost == 0


@pytest.fixture
def module() -> Iterator[Path]:
    """A module with a task, which a developer is working on."""
    path = Path(jobs.__file__).parent / "reloaded_jobs.py"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


class TestReloading:
    def test_takes_up_code_that_has_changed(self, module: Path) -> None:
        module.write_text(edited("old"))
        name = "tests.reloaded_jobs.edited"
        with worker("--reload", forked=False) as process:
            enqueue_by_name(name)
            eventually(lambda: History.objects.filter(result="old").exists(), within=20)

            module.write_text(edited("newer"))

            eventually(lambda: ran_as_new(name), within=30)
            process.signal(SIGTERM)
            assert process.exit_status() == 0


def edited(text: str) -> str:
    return f"from pgqueue import task\n\n\n@task\ndef edited():\n    return {text!r}\n"


def enqueue_by_name(name: str) -> None:
    Message.objects.create(
        channel="default",
        task=name,
        state=State.READY,
        max_attempts=1,
        payload={"args": [], "kwargs": {}},
    )


def ran_as_new(name: str) -> bool:
    if not Message.objects.exists():
        enqueue_by_name(name)
    return History.objects.filter(result="newer").exists()
