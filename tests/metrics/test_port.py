"""The port of a real worker: asked over HTTP, as Prometheus and Kubernetes do."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from multiprocessing import Pipe
from threading import Thread
from time import monotonic
from typing import Any
from unittest.mock import Mock, patch

import pytest
import urllib3
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from prometheus_client.parser import text_string_to_metric_families

from pgqueue.database.connections import connect
from pgqueue.engine.run_statistics import BUCKETS, Counts
from pgqueue.metrics import port as module
from pgqueue.metrics.port import Port
from pgqueue.models import Worker
from pgqueue.worker.health import Reporter
from pgqueue.worker.parent import SupervisorPipe
from pgqueue.worker.report import Gathered, ProcessReport, Reports, WorkerSnapshot
from tests import jobs
from tests.eventually import eventually
from tests.processes import Process, manage, worker
from tests.system import children, free_port

Found = dict[tuple[str, ...], float]
LEASE = timedelta(seconds=30)


def get(port: int, path: str) -> tuple[int, str]:
    response = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=10)
    return response.status, response.data.decode()


def scraped(port: int) -> Found:
    """Return the samples by their name and the values of their labels, sorted by these."""
    status, text = get(port, "/metrics")
    assert status == 200
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def answers(port: int, path: str) -> int:
    """Return the status; 0: nobody listens."""
    try:
        return get(port, path)[0]
    except urllib3.exceptions.HTTPError:
        return 0


def one(name: str) -> tuple[str, ...]:
    return (f"pgqueue_worker_{name}",)


def runs(found: Found, task: Any, outcome: str) -> float:
    return found.get(("pgqueue_worker_runs_total", "default", outcome, task.name), 0)


@pytest.mark.django_db(transaction=True)
class TestAWorker:
    def test_tells_what_it_does_and_has_done(self) -> None:
        jobs.add.enqueue_many([(each,) for each in range(30)])
        jobs.fail.using(max_attempts=1).enqueue("no use")
        jobs.leave_atomically.enqueue("x")
        port = free_port()

        with worker("--threads", "4", "--metrics-port", str(port)):
            jobs.sleep.enqueue(20)
            found = eventually(
                lambda: (
                    (now := scraped(port))[one("running")] == 1
                    and now[one("unsettled_runs")] == 0
                    and now[one("healthy")] == 1  # after its first heartbeat
                    and runs(now, jobs.add, "succeeded") == 30
                    and runs(now, jobs.fail, "dead") == 1
                    and runs(now, jobs.leave_atomically, "succeeded") == 1
                    and now
                ),
                within=20,
            )

        assert found
        pair = "default", jobs.add.name
        assert found["pgqueue_worker_run_seconds_count", *pair] == 30
        assert found["pgqueue_worker_run_seconds_bucket", "default", "+Inf", jobs.add.name] == 30
        assert found["pgqueue_worker_wait_seconds_sum", *pair] > 0
        assert found[one("slots")] == 4
        assert found[one("buffered_messages")] == 0
        assert found[one("claimed_messages_total")] == 33
        assert found[one("claims_total")] >= 1
        assert found[one("leases_lost_total")] == 0
        assert found[one("processes")] == found[one("process_starts_total")] == 1
        assert 0 <= found[one("busy_seconds")] < 30
        assert 0 <= found[one("heartbeat_age_seconds")] < 30
        # Nothing of the whole queue, which each worker would repeat; but what this process keeps.
        assert not any(each[0].startswith("pgqueue_messages") for each in found)
        assert ("process_start_time_seconds",) in found

    def test_answers_probes_until_what_runs_has_ended(self) -> None:
        port = free_port()
        with worker("--metrics-port", str(port)) as process:
            eventually(lambda: answers(port, "/healthz") == 200)
            assert get(port, "/livez") == (200, "ok\n")
            assert answers(port, "/") == 404
            jobs.sleep.enqueue(1.5, "nap")
            eventually(lambda: scraped(port)[one("running")] == 1)

            process.signal(signal.SIGTERM)

            while (status := answers(port, "/healthz")) and not _has_ended("nap"):
                assert status == 200
            assert _has_ended("nap")
            assert process.exit_status() == 0
        assert answers(port, "/healthz") == 0

    def test_is_not_healthy_without_its_database_and_lives_all_the_same(self) -> None:
        port = free_port()
        with worker("--metrics-port", str(port), lease=1.5, heartbeat=0.5):
            eventually(lambda: answers(port, "/healthz") == 200)

            with closing(connect("default", name="test")) as other, other.transaction():
                # The heartbeat waits for a lock, as it would for a server that is silent.
                other.execute("LOCK TABLE pgqueue_worker")
                eventually(lambda: answers(port, "/healthz") == 503)
                _, reason = get(port, "/healthz")
                lives = answers(port, "/livez")

            assert reason.startswith("the database has taken no heartbeat for")
            assert lives == 200
            eventually(lambda: answers(port, "/healthz") == 200)

    @pytest.mark.slow
    def test_is_neither_healthy_nor_alive_with_a_service_that_is_gone(self) -> None:
        port = free_port()
        with worker("--metrics-port", str(port)):
            jobs.end_a_thread.enqueue("settler")

            eventually(lambda: answers(port, "/livez") == 503, within=20)

            assert get(port, "/livez")[1] == "stuck: settler\n"
            assert answers(port, "/healthz") == 503

    def test_that_finds_its_port_taken_says_so_and_ends(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = str(other.getsockname()[1])

            done = manage("runworker", "--drain", "--metrics-port", taken)

        assert done.returncode == 1
        assert f"127.0.0.1 port {taken} is not available" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
class TestSeveralProcesses:
    def test_have_one_port_whose_counts_outlive_them(self) -> None:
        port = free_port()
        jobs.add.enqueue_many([(each,) for each in range(40)])
        arguments = ("--processes", "2", "--threads", "2", "--metrics-port", str(port))
        with worker(*arguments) as process:
            eventually(
                lambda: (
                    (now := scraped(port))[one("processes")] == 2
                    and runs(now, jobs.add, "succeeded") == 40
                ),
                within=20,
            )
            assert scraped(port)[one("slots")] == 4
            assert answers(port, "/healthz") == 200

            os.kill(_workers(process)[0], signal.SIGKILL)

            eventually(lambda: scraped(port)[one("process_deaths_total")] == 1)
            assert runs(scraped(port), jobs.add, "succeeded") == 40
            jobs.add.enqueue(1)
            eventually(lambda: runs(scraped(port), jobs.add, "succeeded") == 41)
            eventually(lambda: scraped(port)[one("process_starts_total")] == 3)


def _has_ended(name: str) -> bool:
    return Group.objects.filter(name=f"{name} ended").exists()


def _workers(process: Process) -> list[int]:
    pids = set(Worker.objects.values_list("pid", flat=True))
    return [pid for pid in children(process.popen.pid) if pid in pids]


class TestThePort:
    def test_hangs_up_on_those_who_are_too_many_and_answers_the_others(self) -> None:
        port = free_port()
        with Port("127.0.0.1", port).serving(WorkerSnapshot), ExitStack() as clients:
            for _ in range(module.MOST_CLIENTS):
                clients.enter_context(socket.create_connection(("127.0.0.1", port)))

            eventually(lambda: not answers(port, "/livez"))

            clients.close()
            eventually(lambda: answers(port, "/livez") == 200)

    def test_answers_again_after_the_system_had_no_room_for_threads(self) -> None:
        port = free_port()
        with Port("127.0.0.1", port).serving(WorkerSnapshot):
            with patch.object(Thread, "start", side_effect=RuntimeError("no room")):
                for _ in range(module.MOST_CLIENTS):
                    assert not answers(port, "/livez")

            assert answers(port, "/livez") == 200

    def test_hangs_up_on_a_client_that_says_nothing(self) -> None:
        port = free_port()
        with (
            patch.object(module._Handler, "timeout", 0.1),
            Port("127.0.0.1", port).serving(WorkerSnapshot),
            socket.create_connection(("127.0.0.1", port), timeout=10) as client,
        ):
            assert client.recv(1) == b""

    def test_may_be_one_of_ipv6(self) -> None:
        port = free_port()
        try:
            opened = Port("::1", port)
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        with opened.serving(WorkerSnapshot):
            assert urllib3.request("GET", f"http://[::1]:{port}/livez").status == 200

    def test_needs_prometheus_client_and_says_so(self) -> None:
        missing = {"prometheus_client": None, "pgqueue.metrics.port": None}
        with (
            patch.dict(sys.modules, missing),
            pytest.raises(CommandError, match=r"pip install 'pgqueue\[prometheus\]'"),
        ):
            call_command("runworker", "--drain", "--metrics-port", "9100", verbosity=0)

    def test_tells_what_several_processes_of_the_project_count_where_they_write_it(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
        port = free_port()
        with Port("127.0.0.1", port).serving(WorkerSnapshot):
            found = scraped(port)

        assert one("slots") in found
        assert ("process_start_time_seconds",) not in found


class TestHealth:
    @pytest.mark.parametrize(
        "reports", [[], [ProcessReport(at=0)]], ids=["no report", "no heartbeat"]
    )
    def test_is_not_there_before_the_first_heartbeat(self, reports: list[ProcessReport]) -> None:
        found = WorkerSnapshot(reports=reports)

        assert found.not_working(LEASE) == ["the database has taken no heartbeat so far"]
        assert found.not_alive() == []

    def test_names_what_is_stuck_in_one_of_several_processes(self) -> None:
        stuck, well = Reports(), Reports()
        stuck.last = ProcessReport(silence=0, stuck=["settler"], at=monotonic())
        well.last = ProcessReport(silence=0, at=monotonic())

        now = Gathered().with_those([well, stuck], [])

        assert now.not_alive() == now.not_working(LEASE) == ["stuck: settler"]

    def test_looks_at_the_process_that_has_been_silent_for_longest(self) -> None:
        with patch("pgqueue.worker.report.monotonic", return_value=100.0):
            well = [
                ProcessReport(silence=1, at=100),
                ProcessReport(silence=2, at=95),
                ProcessReport(at=100),
            ]
            silent = [*well, ProcessReport(silence=25, at=90)]

            assert WorkerSnapshot(reports=well).not_working(LEASE) == []
            assert WorkerSnapshot(reports=silent).not_working(LEASE) == [
                "the database has taken no heartbeat for 35 s"
            ]
            assert WorkerSnapshot(reports=silent).not_alive() == []


class TestAReporter:
    """What tells the supervisor, through a pipe."""

    @pytest.fixture
    def pipe(self) -> Iterator[tuple[Any, Any]]:
        ours, theirs = Pipe()
        with ours, theirs:
            yield ours, theirs

    def test_tells_counts_once_and_again_when_they_have_changed(self, pipe: Any) -> None:
        totals = [_counts("a", 1), _counts("b", 1)]
        state, tally = Mock(), Mock(totals=lambda: totals)
        state.report.return_value = ProcessReport(claims=1, at=0)
        reporter = Reporter(SupervisorPipe(pipe[1]), state, tally)

        reporter.tick()
        first = list(received(pipe[0]))
        totals[1] = _counts("b", 2)
        reporter.tick()
        second = list(received(pipe[0]))

        assert [each.split()[0] for each in first] == [b"report", b"runs", b"runs"]
        assert [each.split()[0] for each in second] == [b"report", b"runs"]
        reports = Reports()
        for each in first + second:
            reports.take(each)
        assert reports.last and reports.last.claims == 1
        assert {task: each.succeeded for (_, task), each in reports.runs.items()} == {
            "a": 1,
            "b": 2,
        }

    def test_keeps_what_a_full_pipe_had_no_room_for_and_never_waits(self, pipe: Any) -> None:
        names = [f"task {number}" for number in range(3000)]
        totals = [_counts(each, 1) for each in names]
        state, tally = Mock(), Mock(totals=lambda: totals)
        state.report.return_value = ProcessReport(at=0)
        reporter = Reporter(SupervisorPipe(pipe[1]), state, tally)
        reports = Reports()

        while len(reports.runs) < len(names):
            reporter.tick()
            for each in received(pipe[0]):
                reports.take(each)

        assert {task for _, task in reports.runs} == set(names)


def received(pipe: Any) -> Iterator[bytes]:
    while pipe.poll():
        yield pipe.recv_bytes()


def _counts(task: str, succeeded: int) -> Counts:
    histogram = [succeeded] * BUCKETS
    return Counts("c", task, succeeded, 0, 0, 0, 0, 0, 1.0, 1.0, histogram, histogram)


def test_what_is_gathered_only_grows() -> None:
    def reports(claimed: int, succeeded: int) -> Reports:
        made = Reports()
        made.last = ProcessReport(claimed=claimed, at=0)
        made.runs["c", "t"] = _counts("t", succeeded)
        return made

    gathered, first = Gathered(), reports(3, 2)
    gathered.keep(first)

    now = gathered.with_those([reports(5, 7)], [])

    [counts] = now.runs
    assert (counts.succeeded, counts.ran, counts.waits[0]) == (9, 2.0, 9)
    assert now.claimed == 8
    assert [each.claimed for each in now.reports] == [5]
