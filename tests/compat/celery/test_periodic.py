"""What Celery's user guide shows of periodic tasks: each example's twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.checks import run_checks

from pgqueue.compat.celery import Celery, exceptions, signals
from pgqueue.compat.celery.schedules import crontab, schedule, solar
from pgqueue.engine import schedule as engine
from pgqueue.exceptions import InvalidSchedule
from pgqueue.models import Message
from pgqueue.options.ticks import Cron
from pgqueue.tasks import scheduling
from pgqueue.values.names import AT_START
from tests.compat.celery import jobs

MONDAY = datetime(2030, 6, 3, tzinfo=UTC)


def declared() -> dict[str, Any]:
    return {each.name: each for each in scheduling.declared("default")}


def ticks(line: crontab, count: int = 4, after: datetime = MONDAY) -> list[str]:
    found, rhythm = [], Cron(line.line, "UTC")
    for _ in range(count):
        after = rhythm.after(after)
        found.append(f"{after:%a %d %b %H:%M}")
    return found


class TestCrontab:
    @pytest.mark.parametrize(("line", "expected"), [
        (crontab(), "* * * * *"),
        (crontab.from_string("*/5 3 1 jan *"), "*/5 3 1 1 *"),
        (crontab.from_string("0 7 * * mon-fri"), "0 7 * * 1-5"),
        (crontab(minute=0, hour=0), "0 0 * * *"),
        (crontab(minute=0, hour="*/3"), "0 */3 * * *"),
        (crontab(minute=0, hour="0,3,6,9,12,15,18,21"), "0 0,3,6,9,12,15,18,21 * * *"),
        (crontab(minute=0, hour=range(0, 24, 3)), "0 0,3,6,9,12,15,18,21 * * *"),
        (crontab(minute="*/15"), "*/15 * * * *"),
        (crontab(day_of_week="sunday"), "* * * * 0"),
        (crontab(minute="*", hour="*", day_of_week="sun"), "* * * * 0"),
        (crontab(minute="*/10", hour="3,17,22", day_of_week="thu,fri"), "*/10 3,17,22 * * 4,5"),
        (crontab(minute=0, hour="*/2,*/3"), "0 */2,*/3 * * *"),
        (crontab(minute=0, hour="*/5"), "0 */5 * * *"),
        (crontab(minute=0, hour="*/3,8-17"), "0 */3,8-17 * * *"),
        (crontab(0, 0, day_of_month="2"), "0 0 2 * *"),
        (crontab(0, 0, day_of_month="2-30/2"), "0 0 2-30/2 * *"),
        (crontab(0, 0, day_of_month="1-7,15-21"), "0 0 1-7,15-21 * *"),
        (crontab(0, 0, day_of_month="11", month_of_year="5"), "0 0 11 5 *"),
        (crontab(0, 0, month_of_year="*/3"), "0 0 * */3 *"),
        (crontab(hour=7, minute=30, day_of_week=1), "30 7 * * 1"),
        (crontab(0, 0, month_of_year="jan,dec"), "0 0 * 1,12 *"),
        (crontab(0, 0, day_of_week="mon-fri"), "0 0 * * 1-5"),
        (crontab(0, 0, day_of_week="fri-mon"), "0 0 * * 0,1,5,6"),
        (crontab(0, "22-3/2"), "0 0,2,22 * * *"),
    ])  # fmt: skip
    def test_an_example_is_a_cron_line(self, line: crontab, expected: str) -> None:
        assert line.line == expected
        assert ticks(line)

    def test_it_means_the_times_that_the_guide_says(self) -> None:
        assert ticks(crontab(hour=7, minute=30, day_of_week=1), 2) == [
            "Mon 03 Jun 07:30", "Mon 10 Jun 07:30",
        ]  # fmt: skip
        assert ticks(crontab(0, 0, month_of_year="*/3"), 1) == ["Mon 01 Jul 00:00"]
        assert ticks(crontab(minute=0, hour="*/5"), 4) == [
            "Mon 03 Jun 05:00", "Mon 03 Jun 10:00", "Mon 03 Jun 15:00", "Mon 03 Jun 20:00",
        ]  # fmt: skip

    def test_days_that_are_both_are_an_error_since_cron_has_either(self) -> None:
        with pytest.raises(InvalidSchedule, match="days that match both"):
            crontab(day_of_month=13, day_of_week="fri")

    @pytest.mark.parametrize("field", [
        {"minute": 60}, {"hour": "24"}, {"day_of_week": "someday"}, {"day_of_month": 0},
        {"month_of_year": "13"}, {"minute": "5-x"},
    ])  # fmt: skip
    def test_what_is_no_time_is_an_error(self, field: dict[str, Any]) -> None:
        with pytest.raises(InvalidSchedule, match="crontab: "):
            crontab(**field)

    def test_a_clock_of_its_own_is_not_taken_over(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="nowfun"):
            crontab(nowfun=datetime.now)


def test_a_schedule_tells_when_it_is_due_in_a_project_without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    hourly = crontab(minute=0)

    assert abs(hourly.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert hourly.is_due(MONDAY - timedelta(days=20_000)).is_due
    assert timedelta() < hourly.remaining_estimate(hourly.now()) <= timedelta(hours=1)


def test_the_sun_is_no_schedule() -> None:
    with pytest.raises(exceptions.Unsupported, match="no schedule follows the sun"):
        solar("sunset", -37.81753, 144.96715)


class TestEntries:
    def test_the_settings_schedule_tasks(self, settings: Any) -> None:
        settings.CELERY_TIMEZONE = "Europe/London"
        settings.CELERY_BEAT_SCHEDULE = {
            "add-every-30-seconds": {
                "task": jobs.add.name, "schedule": 30.0, "args": (16, 16),
            },
            "add-every-monday-morning": {
                "task": jobs.add.name,
                "schedule": crontab(hour=7, minute=30, day_of_week=1),
                "args": [16], "kwargs": {"y": 1},
            },
            "hourly": {"task": jobs.add.name, "schedule": timedelta(hours=1), "args": (1, 2),
                       "relative": True},
            "half-hourly": {"task": jobs.add.name, "schedule": schedule(1800), "args": (1, 2)},
        }  # fmt: skip
        found = declared()

        assert found["add-every-30-seconds"].every == timedelta(seconds=30)
        assert found["add-every-30-seconds"].args == "[16, 16]"
        monday = found["add-every-monday-morning"]
        assert (monday.cron, monday.timezone) == ("30 7 * * 1", "Europe/London")
        assert (monday.args, monday.kwargs) == ("[16]", '{"y": 1}')
        assert found["hourly"].every == timedelta(hours=1)
        assert found["half-hourly"].every == timedelta(minutes=30)

    def test_an_app_adds_periodic_tasks(self) -> None:
        app = Celery()

        @app.on_after_configure.connect
        def setup_periodic_tasks(sender: Celery, **kwargs: Any) -> None:
            sender.add_periodic_task(10.0, jobs.fail.s("hello"), name="add every 10")
            sender.add_periodic_task(30.0, jobs.fail.s("world"), expires=10)
            sender.add_periodic_task(
                crontab(hour=7, minute=30, day_of_week=1), jobs.fail.s("Happy Mondays!")
            )

        app.conf.timezone = "UTC"
        names = [
            "add every 10", f"{jobs.fail.name}('world')", f"{jobs.fail.name}('Happy Mondays!')",
        ]  # fmt: skip

        assert list(declared()) == sorted(names)
        assert list(declared()) == sorted(names)  # once
        assert app.conf.beat_schedule[names[1]]["options"] == {"expires": 10}

    @pytest.mark.parametrize(("entry", "said"), [
        ({"task": "nothing", "schedule": 30}, "No task is named 'nothing'"),
        ({"task": jobs.add.name}, "needs 'schedule'"),
        ({"schedule": 30}, "needs 'task'"),
        ({"task": jobs.add.name, "schedule": "daily", "args": (1, 2)}, "it must be crontab"),
        ({"task": jobs.add.name, "schedule": 30, "arg": ()}, "Did you mean 'args'"),
        ({"task": jobs.add.name, "schedule": 0.1, "args": (1, 2)}, "a second or more"),
        (30, "is no dict"),
        ({"task": jobs.add.name, "schedule": 30, "args": (1, 2), "options": {"exchange": "x"}},
         "there are no exchanges"),
        ({"task": jobs.add.name, "schedule": 30, "args": (1, 2), "options": {"queue": ""}},
         "channel"),
        ({"task": "tests.jobs.mail", "schedule": 30, "args": ("a",), "options": {"queue": "x"}},
         "tasks of Celery's kind"),
        ({"task": jobs.add.name, "schedule": jobs.OddMinutes()}, "OddMinutes.is_due()"),
    ])  # fmt: skip
    def test_an_entry_that_can_not_be_is_an_error_of_the_check(
        self, settings: Any, entry: Any, said: str
    ) -> None:
        settings.CELERY_BEAT_SCHEDULE = {"mine": entry}

        [error] = run_checks(tags=[AT_START])
        assert error.id == "pgqueue.E008"
        assert "beat_schedule['mine']" in error.msg and said in error.msg

    @pytest.mark.django_db
    def test_a_tick_has_the_options_that_the_class_of_its_task_adds(self, settings: Any) -> None:
        settings.CELERY_BEAT_SCHEDULE = {"mine": {"task": jobs.tenant_of.name, "schedule": 30}}

        assert jobs.tenant_of.own.scheduled_by("mine")["metadata"]["tenant"] == "acme"

    @pytest.mark.django_db
    def test_a_tick_has_the_options_of_its_entry(self, settings: Any, queue: Any) -> None:
        settings.CELERY_BEAT_SCHEDULE = {
            "nightly": {
                "task": jobs.add.name, "schedule": crontab(0, 3), "args": (1, 2),
                "options": {"queue": "night", "priority": 2, "expires": 60,
                            "headers": {"trace": "abc"}},
            },
        }  # fmt: skip
        engine.declare(queue, scheduling.declared("default"))
        scheduling.run("nightly")

        message = Message.objects.get()
        assert message.metadata == {"trace": "abc", "schedule": "nightly"}
        assert (message.channel, message.priority) == ("night", 20)
        assert message.expires_at - message.created_at == timedelta(seconds=60)
        assert jobs.add.own.scheduled_by("another") == {}

    @pytest.mark.django_db
    def test_a_tick_of_another_apps_task_has_the_options_of_its_entry(self) -> None:
        app = Celery("later")
        app.conf.beat_schedule = {
            "nightly": {"task": jobs.create_group.name, "schedule": 60, "args": ("authors",),
                        "options": {"queue": "night"}},
        }  # fmt: skip

        assert declared()["nightly"].task == jobs.create_group.name
        assert jobs.create_group.own.scheduled_by("nightly")["channel"] == "night"

    @pytest.mark.django_db
    def test_a_tick_is_routed_and_told_of_before_it_is_stored(
        self, settings: Any, queue: Any
    ) -> None:
        def route(name: str, args: Any, kwargs: Any, options: Any, task: Any = None) -> Any:
            return {"queue": f"sums-of-{args[0]}"}

        settings.CELERY_TASK_ROUTES = route
        settings.CELERY_BEAT_SCHEDULE = {
            "nightly": {"task": jobs.add.name, "schedule": 60, "args": (1, 2)}
        }

        @signals.before_task_publish.connect
        def trace(headers: dict[str, Any], **named: Any) -> None:
            headers["trace"] = "abc"
            told.append(headers["id"])

        told: list[str] = []
        try:
            engine.declare(queue, scheduling.declared("default"))
            scheduling.run("nightly")
        finally:
            signals.before_task_publish.disconnect(trace)

        message = Message.objects.get()
        assert message.channel == "sums-of-1"
        assert message.metadata.pop("celery")["id"] in told
        assert message.metadata == {"trace": "abc", "schedule": "nightly"}
