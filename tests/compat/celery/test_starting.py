"""What projects need of Celery before their first task runs."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.core.checks import run_checks
from django.utils import timezone

from pgqueue.compat.celery import (
    Celery,
    _state,
    announcing,
    current,
    current_task,
    exceptions,
    registry,
    signals,
)
from pgqueue.compat.celery.app import app_or_default, trace
from pgqueue.compat.celery.backends import base as backends
from pgqueue.compat.celery.backends.base import DisabledBackend
from pgqueue.compat.celery.beat import Scheduler
from pgqueue.compat.celery.contrib.testing.app import TestApp as make_app
from pgqueue.compat.celery.contrib.testing.tasks import ping
from pgqueue.compat.celery.contrib.testing.worker import start_worker
from pgqueue.compat.celery.result import AsyncResult
from pgqueue.compat.celery.schedules import BaseSchedule, crontab, maybe_schedule, schedule
from pgqueue.compat.celery.utils import time as times
from pgqueue.compat.celery.worker.request import Request
from pgqueue.exceptions import InvalidTask
from pgqueue.models import Message, Worker
from pgqueue.redaction import MASK
from pgqueue.testing import run_all
from tests import cards
from tests.compat.celery import jobs
from tests.eventually import eventually

ALIAS = """
import sys
import pgqueue.compat.celery

sys.modules["celery"] = pgqueue.compat.celery

import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["pgqueue"], DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql"}})
django.setup()

import celery.schedules
import celery.utils.log
from celery import Celery, shared_task, states
from celery.app.task import Task
from celery.result import AsyncResult
from celery.schedules import crontab
from pgqueue.compat.celery import schedules

assert celery.schedules is schedules and schedules.crontab is crontab
assert schedules.__spec__.name == schedules.__name__ == "pgqueue.compat.celery.schedules"
assert issubclass(type(shared_task(lambda: None) if False else Task()), Task)
try:
    import celery.bootsteps
except ImportError as error:
    assert "is not taken over" in str(error)
try:
    import celery.nothing
except ModuleNotFoundError as error:
    assert error.name == "celery.nothing", error.name
print("celery" in str(celery), celery.__version__)
"""


def test_other_packages_find_this_one_as_celery() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALIAS],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "True 5.5.0\n"


@pytest.mark.django_db  # Django 6.1 checks all databases, unless some are named
def test_signals_of_logging_can_be_connected_and_the_check_says_that_they_are_never_sent() -> None:
    @signals.setup_logging.connect
    def configure(**options: Any) -> None: ...

    try:
        found = [each for each in run_checks(tags=["pgqueue"]) if each.id == "pgqueue.I103"]
    finally:
        signals.setup_logging.disconnect(configure)

    [told] = found
    assert told.msg.startswith("The signal setup_logging is never sent: configure Django's LOGGING")


def test_the_app_and_the_task_of_this_moment_are_found_where_celery_has_them() -> None:
    app = Celery("here")

    assert app_or_default() is _state.get_current_app() is app
    assert app_or_default(jobs.app) is jobs.app
    assert _state.get_current_task() is None and not current_task
    assert trace.task_has_custom(jobs.tenant_of, "apply_async")
    assert not trace.task_has_custom(jobs.add, "apply_async")
    with pytest.raises(exceptions.Unsupported, match="runworker"):
        trace.build_tracer("name", jobs.add)


def test_what_was_for_later_may_be_called_by_another_thread_at_the_same_moment() -> None:
    class Shared(list[Any]):
        def __len__(self) -> int:
            found = super().__len__()
            self.clear()  # as another thread, right after this one has asked
            return found

    discovery = current.Discovery()
    discovery._later = Shared([lambda: None])

    discovery.import_all()

    assert list.__len__(discovery._later) == 0


def test_a_class_with_the_app_as_an_attribute() -> None:
    made = jobs.app.subclass_with_self(AsyncResult, name="Result", attribute="owner")

    assert issubclass(made, AsyncResult) and made.owner is jobs.app and made.__name__ == "Result"
    assert jobs.add.AsyncResult("1", task_name="x").id == "1"


def test_a_schedule_tells_when_it_is_due(settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    hourly, often = crontab(minute=0), schedule(60, nowfun=lambda: noon)

    assert isinstance(hourly, BaseSchedule) and isinstance(often, BaseSchedule)
    assert often.remaining_estimate(noon) == timedelta(seconds=60)
    assert often.is_due(noon) == (False, 60)
    assert often.is_due(noon - timedelta(seconds=90)) == (True, 60)
    assert hourly.is_due(datetime(2020, 1, 1)).is_due
    assert maybe_schedule(30).run_every == timedelta(seconds=30)
    assert maybe_schedule(hourly) is hourly


def test_helpers_for_times_are_those_of_celery() -> None:
    naive = datetime(2030, 1, 1, 12)
    aware = naive.replace(tzinfo=UTC)

    assert times.is_naive(naive) and times.maybe_make_aware(naive) == aware == times.to_utc(naive)
    assert times.maybe_iso8601("2030-01-01T12:00:00+00:00") == aware
    assert times.maybe_timedelta(3) == timedelta(seconds=3)
    assert times.remaining(aware, timedelta(hours=1), now=aware) == timedelta(hours=1)
    assert times.rate("30/m") == 0.5 and times.rate(None) == 0
    assert times.humanize_seconds(7200) == "2.00 hours" and times.humanize_seconds(0) == "now"
    assert times.get_exponential_backoff_interval(2, 3, 10) == 10
    assert times.timezone.get_timezone("Europe/Berlin").key == "Europe/Berlin"


@pytest.mark.django_db
def test_other_packages_find_what_they_ask_for() -> None:
    """Sentry's and OpenTelemetry's integrations and celery-progress ask for these names."""
    done = jobs.add.delay(1, 2)
    run_all()

    assert registry.tasks[jobs.add.name] is jobs.add
    assert isinstance(jobs.add.request, Request) and hasattr(Scheduler, "apply_entry")
    with pytest.raises(exceptions.Unsupported, match="beat_schedule"):
        Scheduler()
    assert issubclass(DisabledBackend, object) and backends.get_current_task() is None
    told = AsyncResult(done.id)._get_task_meta()
    assert (told["status"], told["result"], told["task_id"]) == ("SUCCESS", 3, done.id)
    assert done.get(timeout=done.id) == 3  # as celery-progress does


@pytest.mark.django_db
def test_options_that_nobody_knows_are_headers() -> None:
    result = jobs.dump_context.apply_async((1,), user_id=7, tenant="acme")
    assert Message.objects.get().metadata == {"user_id": 7, "tenant": "acme"}
    run_all()

    assert result.get()["headers"] == {"user_id": 7, "tenant": "acme"}
    with pytest.raises(InvalidTask, match=r"no option 'countdwn'.*countdown"):
        jobs.add.apply_async((1, 2), countdwn=5)


@pytest.mark.django_db(transaction=True)
def test_a_worker_in_a_test_runs_tasks_and_is_inspected() -> None:
    app = make_app("tests", {"task_default_queue": "tests"})
    assert app.conf.task_default_queue == "tests"
    assert app.control.inspect().ping() is None and app.control.ping() == []
    later = jobs.add.apply_async((1, 2), countdown=600, task_id="job-9")

    with start_worker(app, concurrency=2, perform_ping_check=False):
        assert ping.delay().get(timeout=20) == "pong"
        running = jobs.linger.delay()
        inspect = app.control.inspect()
        eventually(lambda: any((inspect.active() or {None: []}).values()), what="nothing runs")
        [(worker, active)] = inspect.active().items()
        [[waiting]] = inspect.scheduled().values()
        running.revoke()
        jobs.STOPPING.set()

    assert worker.startswith("celery@")
    assert [each["name"] for each in active] == [jobs.linger.name]
    assert active[0]["id"] == running.id
    assert waiting["request"]["id"] == later.id == "job-9"
    assert list(app.control.inspect([worker]).ping() or {}) in ([], [worker])


@pytest.mark.django_db
def test_an_inspection_redacts_the_arguments_of_all_tasks() -> None:
    now = timezone.now()
    Worker.objects.create(id=UUID(int=1), host="web", pid=1, started_at=now, last_seen=now)
    jobs.charge.apply_async(("Ada", cards.CARD), countdown=600)
    jobs.note.apply_async(("Ada",), {"token": cards.TOKEN}, countdown=600)
    cards.charge.using(run_after=600).enqueue(7, cards.CARD)

    [scheduled] = jobs.app.control.inspect().scheduled().values()

    told = [(each["request"]["args"], each["request"]["kwargs"]) for each in scheduled]
    assert told == [(["Ada", MASK], {}), (["Ada"], {"token": MASK}), ([7, MASK], {})]


@pytest.mark.django_db
def test_an_inspection_tells_instants_in_a_project_without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False
    now, at = timezone.now(), datetime(2100, 1, 1, 12, tzinfo=UTC)
    Worker.objects.create(id=UUID(int=1), host="web", pid=1, started_at=now, last_seen=now)
    jobs.add.apply_async((1, 2), eta=at)

    [[scheduled]] = jobs.app.control.inspect().scheduled().values()

    assert datetime.fromisoformat(scheduled["eta"]) == at


def test_a_task_finds_its_app_as_other_packages_ask_for_it() -> None:
    assert jobs.create_group._get_app() is jobs.app


def test_a_retry_says_in_celerys_words_when_it_comes() -> None:
    assert (
        str(exceptions.Retry(exc=ValueError("no"), when=600)) == "Retry in 600s: ValueError('no')"
    )


def test_an_error_is_one_of_billiards_where_that_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Theirs: ...

    plain = announcing.info_of(ValueError("no"))
    monkeypatch.setitem(sys.modules, "billiard.einfo", SimpleNamespace(ExceptionInfo=Theirs))

    found = announcing.info_of(ValueError("no"))

    assert not isinstance(plain, Theirs)
    assert isinstance(found, Theirs) and isinstance(found, announcing.ExceptionInfo)
    assert str(found.exception) == "no" and found.type is ValueError
