"""Monitors of schedules are told of each run: over HTTP, and by Sentry's SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest
import sentry_sdk
from django.core.management import call_command
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from pgqueue import checkins, task
from pgqueue.checkins import CheckIn, SentryCrons, URLs, report_schedules, urls
from pgqueue.exceptions import InvalidSchedule
from pgqueue.models import History, Schedule
from pgqueue.options import schedules as options
from pgqueue.tasks import scheduling
from tests import jobs
from tests.eventually import eventually
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)


class Monitor:
    """An endpoint that notes which paths are requested, and answers 200 after these statuses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: list[str] = []
        self.statuses: list[int] = []
        self.may_answer = Event()
        self.may_answer.set()


@contextmanager
def monitoring() -> Iterator[Monitor]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            monitor.may_answer.wait(10)
            monitor.paths.append(self.path)
            self.send_response(monitor.statuses.pop(0) if monitor.statuses else 200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    monitor = Monitor(f"http://127.0.0.1:{server.server_address[1]}/secret")
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield monitor
    finally:
        monitor.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with monitoring() as monitor:
        yield monitor


@pytest.fixture(autouse=True)
def _reporting_ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(urls, "PAUSES", (0.0, 0.0))
    yield
    checkins.stop_reporting()


def run(task: Any, *args: Any, name: str = "nightly") -> None:
    """Run the message of a schedule, with all its attempts."""
    Schedule.objects.create(
        name=name, task=task.name, cron="0 3 * * *", args=list(args), paused=True
    )
    scheduling.run(name)
    drain()


def drain() -> None:
    """Run all messages that are due."""
    call_command("runworker", "--drain", "--threads", "1", verbosity=0)


@task(durable=True)
def sleep_once(run: Any) -> None:
    run.sleep(0.1, name="a moment")


class TestAReporter:
    def told(self, task: Any, *args: Any) -> list[CheckIn]:
        told: list[CheckIn] = []
        report_schedules(told.append)
        run(task, *args)
        return told

    def test_is_told_of_the_beginning_and_of_success(self) -> None:
        began, ended = self.told(jobs.add, 1)

        assert (began.name, began.status, began.seconds) == ("nightly", "started", None)
        assert (ended.name, ended.status) == ("nightly", "succeeded")
        assert ended.seconds is not None
        assert ended.seconds >= 0
        assert {began.message_id, ended.message_id} == {str(History.objects.get().pk)}
        assert began.database == "default"

    def test_is_not_told_of_failures_that_are_tried_again(self) -> None:
        assert [each.status for each in self.told(jobs.fail_twice)] == ["started", "succeeded"]

    @pytest.mark.parametrize("task", [jobs.fail, jobs.fail_async])
    def test_is_told_once_that_it_has_failed(self, task: Any) -> None:
        assert [each.status for each in self.told(task, "no")] == ["started", "failed"]

    def test_is_told_once_of_a_durable_task_that_sleeps(self) -> None:
        told = self.told(sleep_once)
        eventually(lambda: drain() or History.objects.exists())  # a drain waits for no sleep

        assert [each.status for each in told] == ["started", "succeeded"]

    def test_is_told_nothing_of_other_messages(self) -> None:
        told: list[CheckIn] = []
        report_schedules(told.append)
        jobs.add.enqueue(1)
        drain()

        assert told == []

    def test_that_raises_stops_neither_the_run_nor_the_others(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        told: list[CheckIn] = []

        def fail(check_in: CheckIn) -> None:
            raise ZeroDivisionError

        report_schedules(fail, told.append)
        run(jobs.add, 1)

        assert len(told) == 2
        assert History.objects.get().outcome == "succeeded"
        assert "of the schedule nightly was not reported" in caplog.text

    def test_is_replaced_by_a_later_call(self) -> None:
        first: list[CheckIn] = []
        report_schedules(first.append)

        told = self.told(jobs.add, 1)

        assert (len(first), len(told)) == (0, 2)


class TestURLs:
    def test_are_requested_for_start_success_and_failure(self, monitor: Monitor) -> None:
        report_schedules(URLs({"nightly": f"{monitor.url}/?a=1", "weekly": monitor.url}))

        run(jobs.add, 1)
        run(jobs.fail, "no", name="weekly")

        eventually(lambda: len(monitor.paths) == 4)
        assert monitor.paths[:2] == ["/secret/start?a=1", "/secret/?a=1"]
        assert monitor.paths[2:] == ["/secret/start", "/secret/fail"]

    def test_may_differ_by_status(self, monitor: Monitor) -> None:
        report_schedules(URLs({"nightly": {"succeeded": f"{monitor.url}?state=complete"}}))

        run(jobs.add, 1)

        eventually(lambda: monitor.paths == ["/secret?state=complete"])

    def test_are_tried_three_times(
        self, monitor: Monitor, caplog: pytest.LogCaptureFixture
    ) -> None:
        monitor.statuses += [500, 503, 200, 500, 500, 500]
        report_schedules(URLs({"nightly": monitor.url}))

        run(jobs.add, 1)

        eventually(lambda: "was not taken" in caplog.text)
        assert monitor.paths == ["/secret/start"] * 3 + ["/secret"] * 3
        assert "succeeded of the schedule nightly was not taken: status 500" in caplog.text
        assert "secret" not in caplog.text

    def test_that_do_not_answer_hold_up_no_run(
        self, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(urls, "AT_THE_END", 0.0)
        monitor.may_answer.clear()
        report_schedules(URLs({"nightly": monitor.url}))

        run(jobs.add, 1)

        assert History.objects.get().outcome == "succeeded"
        assert monitor.paths == []

    def test_that_refuse_connections_are_logged_without_the_url(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with monitoring() as gone:
            url = gone.url
        report_schedules(URLs({"nightly": url}))

        run(jobs.add, 1)

        eventually(lambda: caplog.text.count("was not taken: ConnectionRefusedError") == 2)
        assert "secret" not in caplog.text

    def test_are_all_requested_before_a_worker_has_ended(self, monitor: Monitor) -> None:
        Schedule.objects.create(
            name="nightly", task=jobs.add.name, cron="0 3 * * *", args=[1], paused=True
        )
        scheduling.run("nightly")

        ended = manage(
            *("runworker", "--drain"),
            DJANGO_SETTINGS_MODULE="tests.checkins.settings",
            CHECK_IN_URL=monitor.url,
        )

        assert ended.returncode == 0, ended.stderr
        assert monitor.paths == ["/secret/start", "/secret"]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("https://hc-ping.com/secret", "takes a dict"),
            ({"nightly": "ftp://secret"}, "'nightly': its URL must"),
            ({"nightly": "https://"}, "its URL must"),
            ({"nightly": "https://a:port/secret"}, "its URL must"),
            ({"nightly": "https://a/sec ret"}, "its URL must"),
            ({"nightly": "https://a/\nsecret"}, "its URL must"),
            ({"nightly": {"succeeded": 5}}, "its URL must"),
            ({"nightly": {"done": "https://a/secret"}}, "no status 'done'"),
            ({"nightly": None}, "must be a URL, or a dict"),
        ],
    )
    def test_that_are_none_are_refused(self, given: Any, message: str) -> None:
        with pytest.raises(InvalidSchedule, match=message) as error:
            URLs(given)
        assert "secret" not in str(error.value)


class Kept(Transport):
    """Keeps what would be sent."""

    sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.sent += [item.payload.json for item in envelope.items if item.type == "check_in"]  # type: ignore[misc]


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    Kept.sent = []
    with sentry_sdk.isolation_scope() as scope:
        # No integrations: they would patch this process for good.
        client = sentry_sdk.Client(
            "https://key@sentry.invalid/1",
            transport=Kept,
            default_integrations=False,
            auto_enabling_integrations=False,
        )
        scope.set_client(client)
        sentry_sdk.get_global_scope().set_client(client)
        yield Kept.sent
        sentry_sdk.get_global_scope().set_client(None)


class TestSentry:
    def test_gets_both_check_ins_under_one_id(self, sent: list[dict[str, Any]]) -> None:
        report_schedules(SentryCrons())

        run(jobs.add, 1, name="Nightly: a report")

        began, ended = sent
        assert [each["status"] for each in sent] == ["in_progress", "ok"]
        assert began["check_in_id"] == ended["check_in_id"]
        assert began["monitor_slug"] == "nightly-a-report"
        assert ended["duration"] >= 0
        assert "monitor_config" not in began

    def test_is_told_of_failure(self, sent: list[dict[str, Any]]) -> None:
        report_schedules(SentryCrons())

        run(jobs.fail, "no")

        assert [each["status"] for each in sent] == ["in_progress", "error"]

    @pytest.mark.usefixtures("own_tasks")
    def test_gets_the_times_of_a_schedule_in_code(self, sent: list[dict[str, Any]]) -> None:
        every = options.Schedule(timedelta(hours=2), name="Every two hours")
        report_schedules(SentryCrons(max_runtime=10, margin=timedelta(minutes=3)))

        run(task(schedule=every)(jobs.add.func), 1, name="Every two hours")

        assert sent[0]["monitor_slug"] == "every-two-hours"
        assert sent[0]["monitor_config"] == {
            "schedule": {"type": "interval", "value": 2, "unit": "hour"},
            "timezone": "UTC",
            "max_runtime": 10,
            "checkin_margin": 3,
        }

    def test_gets_the_times_of_a_schedule_of_the_settings(
        self, sent: list[dict[str, Any]], settings: Any
    ) -> None:
        given = {"task": jobs.add.name, "when": "0 3 * * *", "timezone": "Europe/Berlin"}
        settings.PGQUEUE = {**settings.PGQUEUE, "SCHEDULES": {"nightly": given}}
        report_schedules(SentryCrons())

        run(jobs.add, 1)

        assert sent[0]["monitor_config"] == {
            "schedule": {"type": "crontab", "value": "0 3 * * *"},
            "timezone": "Europe/Berlin",
        }

    def test_gets_those_that_were_named(self, sent: list[dict[str, Any]]) -> None:
        report_schedules(SentryCrons(["weekly"]))

        run(jobs.add, 1)
        run(jobs.add, 1, name="weekly")

        assert {each["monitor_slug"] for each in sent} == {"weekly"}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"names": "nightly"}, "names='nightly'"),
            ({"max_runtime": "5"}, "max_runtime='5'"),
            ({"max_runtime": True}, "max_runtime=True"),
            ({"margin": timedelta(seconds=1)}, "a minute or more"),
            ({"margin": float("nan")}, "a minute or more"),
        ],
    )
    def test_refuses_what_is_no_limit(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidSchedule, match=message):
            SentryCrons(**options)
