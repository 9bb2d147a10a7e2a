"""Workers as processes: signalled, killed, stopped, cut off."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from subprocess import TimeoutExpired

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.utils import timezone
from psycopg.sql import SQL, Identifier

from pgqueue.database.connections import connect
from pgqueue.engine import cancel
from pgqueue.models import History, Message, Worker
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from tests import jobs
from tests.eventually import eventually
from tests.factories import store
from tests.processes import manage, own_connections, starting, worker
from tests.system import catches

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SIGINT, SIGTERM, SIGKILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
SIGHUP, SIGUSR1, SIGUSR2 = signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2


def running() -> bool:
    return Message.objects.filter(state=State.RUNNING).exists()


def names() -> list[str]:
    return list(Group.objects.values_list("name", flat=True))


def began() -> bool:
    """Whether the task itself runs, not only its message by its state."""
    return any(name.endswith("began") for name in names())


def has_locked_its_row() -> bool:
    """Whether an atomic task runs."""
    unlocked = Message.objects.select_for_update(skip_locked=True)
    with transaction.atomic():
        return running() and not unlocked.exists()


def ended(count: int = 1) -> bool:
    return History.objects.count() >= count


def on_time() -> int:
    """Return how many began within half a second after they were due; none may begin before.

    A busy machine may be late for one of several.
    """
    late = [each.started_at - each.run_at for each in History.objects.all()]
    assert min(late) >= timedelta()
    return sum(each < timedelta(seconds=0.5) for each in late)


def is_waiting(service: str) -> bool:
    """Say whether a connection of a worker's waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = %s "
            "AND wait_event_type = 'Lock' AND datname = current_database()",
            [f"pgqueue {service}"],
        )
        return cursor.fetchone() is not None


@contextmanager
def connections_are_refused() -> Iterator[None]:
    """Cut the workers' connections in the block, and let them have no others."""
    info = connection.connection.info
    given = {**info.get_parameters(), "password": info.password or None, "dbname": "postgres"}
    with closing(psycopg.connect(**given, autocommit=True)) as elsewhere:

        def let_in(allowed: bool) -> None:
            elsewhere.execute(
                SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(
                    Identifier(info.dbname), SQL(str(allowed))
                )
            )

        let_in(False)
        try:
            elsewhere.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = %s AND application_name LIKE 'pgqueue %%'",
                [info.dbname],
            )
            yield
        finally:
            let_in(True)


class TestAskedForStacks:
    @pytest.mark.parametrize("arguments", [[], ["--processes", "2"]])
    def test_every_process_tells_where_its_threads_are_and_goes_on(
        self, arguments: list[str]
    ) -> None:
        count = 2 if arguments else 1
        asleep = (
            r'Thread (\w+) \(most recent call first\):\n  File ".*jobs.py", line \d+ in sleep\b'
        )
        jobs.sleep.enqueue_many([(5, str(number)) for number in range(count)])
        with worker("--threads", "1", *arguments) as process:
            eventually(lambda: len(names()) == count)

            def have_told() -> bool:
                # Again: a slow process mixes its stacks with the next one's.
                process.signal(SIGUSR1)
                process.signal(SIGUSR2)
                time.sleep(0.5)
                return len(set(re.findall(asleep, process.log))) == count

            eventually(have_told, within=4)
            eventually(lambda: ended(count))
            process.signal(SIGTERM)

            assert process.exit_status() == 0

        assert process.log.count("in run_from_argv") >= 1
        assert set(History.objects.values_list("outcome", "attempt")) == {("succeeded", 1)}

    def test_while_it_starts_nothing_ends(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nowhere"
            with starting(database=url) as process:
                eventually(lambda: catches(process.popen.pid, SIGTERM), within=9)
                process.signal(SIGUSR1)
                process.signal(SIGUSR2)
                process.signal(SIGTERM)

                assert process.exit_status(within=3) == 0

        assert "most recent call first" in process.log


class TestStartedWithNohup:
    @pytest.mark.parametrize("arguments", [[], ["--processes", "1", "--max-tasks", "1000"]])
    def test_it_survives_a_hangup(self, arguments: list[str]) -> None:
        before = signal.signal(SIGHUP, signal.SIG_IGN)
        try:
            with worker(*arguments) as process:
                process.signal_group(SIGHUP)
                jobs.add.enqueue(1)
                eventually(ended)
                process.signal(SIGTERM)

                assert process.exit_status() == 0
        finally:
            signal.signal(SIGHUP, before)


class TestAskedToStop:
    @pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
    def test_it_ends_what_runs_and_hands_back_the_rest(self, number: signal.Signals) -> None:
        jobs.sleep.enqueue_many([(2, "first"), (0, "second"), (0, "third")])
        # As it is started outside of the suite.
        with worker("--threads", "1", forked=False) as process:
            eventually(began)
            process.signal(number)

            assert process.exit_status() == 0

        assert History.objects.get().outcome == Outcome.SUCCEEDED
        assert set(names()) == {"first began", "first ended"}
        left = Message.objects.order_by("pk")
        assert [(each.state, each.failures, each.lost) for each in left] == [("ready", 0, 0)] * 2
        assert not Worker.objects.exists()

    def test_twice_it_hands_back_at_once_what_runs(self) -> None:
        jobs.sleep.enqueue(60)
        with worker("--threads", "1") as process:
            eventually(running)
            process.signal(SIGTERM)
            eventually(lambda: "fetcher" not in own_connections())
            process.signal(SIGTERM)

            assert process.exit_status(within=5) == 0

        message = Message.objects.get()
        assert (message.state, message.failures, message.lost) == (State.READY, 0, 0)

    @pytest.mark.parametrize("task", [jobs.sleep_atomically, jobs.sleep_in_the_database])
    def test_twice_it_hands_back_at_once_what_runs_in_a_transaction(
        self, task: Task[[float], None]
    ) -> None:
        task.enqueue(60)
        with worker("--threads", "1", lease=3600) as process:
            eventually(lambda: has_locked_its_row())
            process.signal(SIGTERM)
            eventually(lambda: "fetcher" not in own_connections())
            process.signal(SIGTERM)

            assert process.exit_status(within=5) == 0

        message = Message.objects.get()
        assert (message.state, message.failures, message.lost) == (State.READY, 0, 0)
        assert "failed" not in process.log

    def test_it_waits_for_the_grace_period_at_most(self) -> None:
        jobs.sleep.enqueue(60)
        with worker("--grace", "0.3") as process:
            eventually(running)
            process.signal(SIGTERM)

            assert process.exit_status(within=5) == 0

        assert Message.objects.get().state == State.READY

    def test_when_idle_it_ends_at_once(self) -> None:
        with worker() as process:
            process.wait_until_it_idles()
            process.signal(SIGTERM)

            assert process.exit_status(within=5) == 0

        assert not Worker.objects.exists()

    @pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
    def test_while_it_starts_it_ends_at_once_though_the_database_says_nothing(
        self, number: signal.Signals
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nowhere"
            with starting(database=url) as process:
                eventually(lambda: catches(process.popen.pid, SIGTERM), within=9)
                process.signal(number)

                assert process.exit_status(within=3) == 0

        assert "Traceback" not in process.log

    def test_with_processes_it_ends_at_once_though_the_tables_are_locked(self) -> None:
        with closing(connect("default", name="test")) as other, other.transaction():
            other.execute("LOCK TABLE django_migrations")
            with starting("--processes", "2", "--channel", "x") as process:
                eventually(lambda: is_waiting("supervisor"), within=9)
                process.signal(SIGTERM)

                assert process.exit_status(within=3) == 0

        assert "Traceback" not in process.log

    def test_it_ends_in_time_though_the_database_does_not_answer(self) -> None:
        jobs.sleep.enqueue(1.5, "first")
        with worker("--grace", "1.5") as process:
            eventually(began)
            with closing(connect("default", name="test")) as other, other.transaction():
                other.execute("LOCK TABLE pgqueue_message IN ACCESS EXCLUSIVE MODE")
                process.signal(SIGTERM)

                assert process.exit_status(within=7) == 1
                # The server has not noticed, and would carry out what it was asked for.
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid",
                    [list(own_connections().values())],
                )

        assert "no time to write everything down" in process.log
        assert Message.objects.get().state == State.RUNNING

    def test_twice_it_ends_soon_though_the_database_does_not_answer(self) -> None:
        # Where many have ended, more are claimed than begin.
        jobs.add.enqueue_many([(1,)] * 50)
        _, second = jobs.sleep.enqueue_many([(60, "first"), (0, "second")])
        with (
            worker("--threads", "1", lease=3600) as process,
            closing(connect("default", name="test")) as other,
        ):
            eventually(began)
            eventually(lambda: Message.objects.get(pk=second.id).state == State.RUNNING)
            with other.transaction():
                other.execute("LOCK TABLE pgqueue_message IN ACCESS EXCLUSIVE MODE")
                process.signal(SIGTERM)
                eventually(lambda: is_waiting("supervisor"))
                process.signal(SIGTERM)

                assert process.exit_status(within=6) == 1
                # The server has not noticed, and would carry out what it was asked for.
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid",
                    [list(own_connections().values())],
                )

    @pytest.mark.parametrize("arguments", [[], ["--processes", "2"]], ids=["one", "several"])
    def test_it_says_what_it_could_not_hand_back(self, arguments: list[str]) -> None:
        jobs.sleep.enqueue_many([(60, "first"), (60, "second")])
        with worker("--threads", "1", "--grace", "0.5", *arguments, lease=3600) as process:
            eventually(began)
            with connections_are_refused():
                process.signal(SIGTERM)

                assert process.exit_status(within=9) == 1

        assert "Messages that are left to their leases: 1; " in process.log
        assert "not currently accepting connections" in process.log

    def test_it_writes_down_what_ended_though_the_database_is_slow(self) -> None:
        jobs.sleep.enqueue_many([(0.2, "first"), (1, "second")])
        with (
            worker("--threads", "2", "--grace", "20") as process,
            closing(connect("default", name="test")) as other,
        ):
            eventually(lambda: len(names()) == 2)
            with other.transaction():
                other.execute("LOCK TABLE pgqueue_history IN ACCESS EXCLUSIVE MODE")
                eventually(lambda: is_waiting("settler"))
                eventually(lambda: "second ended" in names())
                process.signal(SIGTERM)
                time.sleep(3)

            assert process.exit_status() == 0

        ended = History.objects.values_list("payload__args__1", "outcome", "attempt")
        assert sorted(ended) == [("first", "succeeded", 1), ("second", "succeeded", 1)]

    def test_it_hands_back_at_once_what_was_not_begun_though_a_connection_broke(self) -> None:
        # Where many have ended, more are claimed than begin.
        jobs.add.enqueue_many([(1,)] * 50)
        _, second = jobs.sleep.enqueue_many([(4, "first"), (0, "second")])
        waits = Message.objects.filter(pk=second.id)
        with worker("--threads", "1") as process:
            eventually(began)
            eventually(lambda: waits.get().state == State.RUNNING)
            with connection.cursor() as cursor:
                pid = own_connections()["supervisor"]
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

            process.signal(SIGTERM)

            eventually(lambda: waits.get().state == State.READY)
            assert names() == ["first began"]

    def test_its_heartbeat_is_the_last_to_stop(self) -> None:
        with (
            worker("--threads", "1") as process,
            closing(connect("default", name="test")) as other,
        ):
            process.wait_until_it_idles()
            with other.transaction():
                other.execute("LOCK TABLE pgqueue_duty IN ACCESS EXCLUSIVE MODE")
                eventually(lambda: is_waiting("duties"))
                process.signal(SIGTERM)
                eventually(lambda: "fetcher" not in own_connections())
                # What others wait for is longer than a heartbeat takes to say goodbye.
                time.sleep(0.5)
                connections = own_connections()

            assert process.exit_status() == 0

        assert {"duties", "heartbeat"} <= connections.keys()
        assert not Worker.objects.exists()


class TestAskedToStopBesideACancelThatIsOpen:
    """An operator has asked for it, and has not committed yet."""

    def test_it_hands_back_later_what_the_operator_gives_up(self) -> None:
        # Where many have ended, more are claimed than begin.
        jobs.add.enqueue_many([(1,)] * 50)
        _, second = jobs.sleep.enqueue_many([(1.5, "first"), (0, "second")])
        with (
            worker("--threads", "1") as process,
            closing(connect("default", name="test")) as operator,
        ):
            eventually(began)
            eventually(lambda: Message.objects.get(pk=second.id).state == State.RUNNING)
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(second.id)])
                process.signal(SIGTERM)
                eventually(has_handed_back)

            assert process.exit_status() == 0

        message = Message.objects.get()
        assert (message.pk, message.state, message.lost) == (int(second.id), State.READY, 0)

    def test_it_waits_for_a_moment_to_write_down_what_ended(self) -> None:
        result = jobs.sleep.enqueue(0.3, "first")
        with (
            worker("--threads", "1") as process,
            closing(connect("default", name="test")) as operator,
        ):
            eventually(began)
            with operator.transaction():
                cancel.cancel(operator, [int(result.id)])
                eventually(lambda: "first ended" in names())
                process.signal(SIGTERM)
                eventually(lambda: "fetcher" not in own_connections())

            assert process.exit_status() == 0

        message = History.objects.get()
        assert (message.outcome, message.attempt) == (Outcome.SUCCEEDED, 1)

    def test_it_waits_as_long_as_the_grace_period_to_write_down_what_ended(self) -> None:
        result = jobs.sleep.enqueue(0.3, "first")
        with (
            worker("--threads", "1", "--grace", "20") as process,
            closing(connect("default", name="test")) as operator,
        ):
            eventually(began)
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(result.id)])
                eventually(lambda: "first ended" in names())
                process.signal(SIGTERM)
                with pytest.raises(TimeoutExpired):
                    process.exit_status(within=4)

            assert process.exit_status() == 0

        message = History.objects.get()
        assert (message.outcome, message.attempt) == (Outcome.SUCCEEDED, 1)

    def test_it_hands_back_a_run_that_it_has_given_up_and_that_ends_by_itself(self) -> None:
        result = jobs.nap.enqueue(60, "first")
        with (
            worker("--async", "1", "--grace", "0.2") as process,
            closing(connect("default", name="test")) as operator,
        ):
            eventually(began)
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [int(result.id)])
                process.signal(SIGTERM)
                eventually(lambda: "cleaned up" in process.log)

            assert process.exit_status() == 0

        message = Message.objects.get()
        assert (message.state, message.failures, message.lost) == (State.READY, 0, 0)


def has_handed_back() -> bool:
    """Whether a worker that stops has tried to release what it had not begun."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgqueue supervisor' "
            "AND datname = current_database() AND state = 'idle' AND query LIKE '%pgqueue_message%'"
        )
        return bool(cursor.fetchone()[0])


def test_one_that_drains_hears_signals_though_the_database_says_nothing() -> None:
    jobs.sleep.enqueue(60)
    in_an_hour = timezone.now() + timedelta(hours=1)
    Message.objects.update(state=State.SCHEDULED, failures=1, run_at=in_an_hour)
    with (
        worker("--drain", "--grace", "0.2") as process,
        closing(connect("default", name="test")) as other,
    ):
        eventually(lambda: "drain" in own_connections())
        other.execute("BEGIN; LOCK TABLE pgqueue_message")
        eventually(lambda: is_waiting("drain"))

        process.signal(SIGTERM)

        process.exit_status(within=6)


@pytest.mark.parametrize("arguments", [["--threads", "1"], ["--threads", "1", "--async", "1"]])
def test_a_module_that_ends_who_imports_it_ends_no_thread(arguments: list[str]) -> None:
    store(connection, task="tests.exiting_jobs.task")
    with worker(*arguments):
        eventually(lambda: Message.objects.filter(state=State.SCHEDULED).exists())

        jobs.add.enqueue(1)

        eventually(ended)


class TestALease:
    def test_is_renewed_for_as_long_as_the_task_takes(self) -> None:
        jobs.sleep.enqueue(3)

        with worker(lease=1), worker(lease=1):
            eventually(ended)

        message = History.objects.get()
        assert (message.attempt, message.lost) == (1, 0)

    def test_of_a_dead_worker_is_taken_over(self) -> None:
        jobs.sleep_and_sign.enqueue(1.5)
        with worker(lease=1) as process:
            eventually(began)
            process.signal(SIGKILL)
            process.exit_status()

        with worker(lease=1):
            eventually(ended)

        message = History.objects.get()
        assert (message.attempt, message.lost, message.failures) == (2, 1, 0)
        assert message.errors[0]["class"] == "pgqueue.exceptions.LeaseLost"

    def test_of_a_worker_that_was_stopped_is_fenced(self) -> None:
        jobs.sleep_and_sign.enqueue(1)
        with worker(lease=1) as stopped:
            eventually(began)
            stopped.signal(signal.SIGSTOP)
            with worker(lease=1):
                eventually(ended)
            stopped.signal(signal.SIGCONT)
            eventually(lambda: len(names()) == 4, what="the first one goes on")
            stopped.signal(SIGTERM)
            stopped.exit_status()

        assert "the lease was lost" in stopped.log
        message = History.objects.get()
        assert (message.attempt, message.lost) == (2, 1)

    def test_lost_too_often_makes_a_dead_letter(self) -> None:
        jobs.kill_its_worker.enqueue()
        for _ in range(3):
            with worker(lease=0.5) as process:
                assert process.exit_status(within=30) == -SIGKILL
        with worker(lease=0.5):
            message = eventually(lambda: Message.objects.dead().first())

        assert (message.lost, message.failures, len(message.errors)) == (3, 0, 3)


class TestAnIdleWorker:
    def test_is_told_of_a_message_long_before_it_polls(self) -> None:
        with worker(poll_interval=60) as process:
            process.wait_until_it_idles()
            eventually(nap_is_long, within=20, what="it still naps shortly")

            jobs.add.enqueue(1)

            eventually(ended, within=2.4)

    def test_starts_a_delayed_message_on_time(self) -> None:
        with worker(poll_interval=60) as process:
            process.wait_until_it_idles()

            # Each is due before the worker would look by itself.
            for count in range(1, 9):
                jobs.add.using(run_after=0.1).enqueue(1)
                eventually(partial(ended, count), within=10)

        assert on_time() >= 7

    def test_starts_on_time_what_it_knows_to_be_delayed(self) -> None:
        with worker(poll_interval=60) as process:
            process.wait_until_it_idles()

            for number in range(8):
                jobs.add.using(run_after=1.5 + 0.37 * number).enqueue(1)
            eventually(lambda: ended(8), within=20)

        assert on_time() >= 7

    def test_starts_a_retry_on_time(self) -> None:
        with worker(poll_interval=60) as process:
            process.wait_until_it_idles()

            for count in range(1, 7):
                jobs.fail_twice.using(backoff=[0.4]).enqueue()
                eventually(partial(ended, count), within=10)

        assert on_time() >= 5

    def test_finds_by_polling_what_it_was_not_told_of(self) -> None:
        with worker(poll_interval=0.3) as process:
            process.wait_until_it_idles()

            # As a notification that got lost: a plain row notifies no worker.
            Message.objects.create(
                channel="default",
                task=jobs.add.name,
                state=State.READY,
                max_attempts=1,
                payload={"args": [1], "kwargs": {}},
            )

            eventually(ended, within=5)

    def test_polls_where_it_must_not_listen(self) -> None:
        with worker("--poll-only"):
            jobs.add.enqueue(1)

            eventually(ended, within=5)
            assert not Worker.objects.filter(notify_until__isnull=False).exists()


def nap_is_long() -> bool:
    """Whether its fetcher last looked so long ago that it naps 5 s at least, and half still."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgqueue fetcher' "
            "AND datname = current_database() AND state = 'idle' "
            "AND clock_timestamp() - query_start > interval '2.6 seconds'"
        )
        return bool(cursor.fetchone()[0])


class TestItsConnections:
    def test_that_broke_amid_a_claim_cost_no_message_anything(self) -> None:
        # Claimed under an id that it had before, and never heard of.
        with worker(poll_interval=60, lease=6) as process:
            process.wait_until_it_idles()
            (former,) = Worker.objects.values_list("pk", flat=True)
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'pgqueue fetcher' AND datname = current_database()"
                )
            Message.objects.create(
                channel="default",
                task=jobs.add.name,
                payload={"args": [1], "kwargs": {}},
                max_attempts=1,
                state=State.RUNNING,
                worker_id=former,
                attempt=1,
                claimed_at=timezone.now(),
                lease_until=timezone.now() + timedelta(hours=1),
            )

            eventually(ended, within=20)

        message = History.objects.get()
        assert (message.lost, message.attempt) == (0, 2)

    def test_persist_whatever_conn_max_age_says(self) -> None:
        with worker() as process:
            process.wait_until_it_idles()
            jobs.leave.enqueue("first")
            eventually(ended)
            # By this it hears of events, which the shop subscribes to.
            eventually(lambda: "listener" in own_connections())
            before = own_connections()

            jobs.leave.enqueue("second")

            eventually(lambda: ended(2))
            assert own_connections() == before
            assert set(before) == {
                "duties",
                "fetcher",
                "heartbeat",
                "listener",
                "settler",
                "supervisor",
            }

    def test_are_replaced_when_they_are_cut(self) -> None:
        with worker(poll_interval=60) as process:
            process.wait_until_it_idles()
            jobs.add.enqueue(1)
            eventually(ended)
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM unnest(%s) AS pid",
                    [list(own_connections().values())],
                )

            jobs.leave.enqueue("after")

            eventually(lambda: ended(2), within=20)
            process.signal(SIGTERM)
            assert process.exit_status() == 0


def test_a_database_that_is_not_there_is_said_in_a_sentence() -> None:
    done = manage("runworker", forked=False, DATABASE_URL="postgresql://nobody@127.0.0.1:1/nowhere")

    assert done.returncode == 1
    assert "is unreachable" in done.stderr
    assert "Traceback" not in done.stderr
