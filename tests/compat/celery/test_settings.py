"""Celery's settings, as projects have them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from pgqueue.compat.celery import Celery, current, exceptions
from pgqueue.compat.celery.checks import check_scheduler, check_settings
from pgqueue.compat.celery.conf import TAKEN, name_of_old, why_needless
from pgqueue.exceptions import InvalidTask
from pgqueue.models import Message
from pgqueue.tasks import registry
from pgqueue.testing import run_all
from tests import programs
from tests.compat.celery import jobs

pytestmark = pytest.mark.django_db


def stored(result: Any) -> Message:
    return Message.objects.get(pk=result.id)


def said() -> dict[str, str]:
    found = run_checks(tags=["pgqueue"])
    return {each.msg.split(" ")[0]: each.id for each in found if "CELERY" in each.msg}


def test_the_default_queue_and_the_limits_hold_for_all_tasks(settings: Any) -> None:
    settings.CELERY_TASK_DEFAULT_QUEUE = "celery"
    settings.CELERY_TASK_DEFAULT_PRIORITY = 3
    settings.CELERY_TASK_TIME_LIMIT = 30 * 60
    settings.CELERY_TASK_SOFT_TIME_LIMIT = 60
    settings.CELERY_TASK_IGNORE_RESULT = True
    message = stored(jobs.add.delay(1, 2))

    assert (message.channel, message.priority) == ("celery", 30)
    limits = [(each.after.total_seconds(), each.is_final) for each in jobs.add.own.limits]
    assert limits == [(60, False), (1800, True)]
    assert jobs.add.own.ignore_result and jobs.add.own.encode_result(1) != "1"
    settings.CELERY_TASK_DEFAULT_QUEUE = None
    assert stored(jobs.add.delay(1, 2)).channel == "default"


def route_a(name: str, args: Any, kwargs: Any, options: Any, task: Any = None, **more: Any) -> Any:
    return {"queue": "seventeen"} if args and args[0] == 17 else None


@pytest.mark.parametrize(("routes", "queue"), [
    ({jobs.add.name: {"queue": "sums"}}, "sums"),
    ({jobs.add.name: "sums"}, "sums"),
    ({"tests.compat.*": {"queue": "tests"}}, "tests"),
    ([("other.*", {"queue": "other"}), ("*.add", {"queue": "sums"})], "sums"),
    ([[("*.add", {"queue": "sums"})]], "sums"),
    ({re.compile(r"(tests|more)\..*\.add"): {"queue": "by-pattern"}}, "by-pattern"),
    ([route_a, {jobs.add.name: "sums"}], "sums"),
    ("tests.compat.celery.test_settings.route_a", "default"),
])  # fmt: skip
def test_routes_name_queues(settings: Any, routes: Any, queue: str) -> None:
    settings.CELERY_TASK_ROUTES = routes

    assert stored(jobs.add.delay(1, 2)).channel == queue
    assert stored(jobs.routed.delay(1)).channel == "mail"
    assert stored(jobs.add.apply_async((1, 2), queue="mine")).channel == "mine"


def test_a_function_routes_by_the_call(settings: Any) -> None:
    settings.CELERY_TASK_ROUTES = (route_a, {"*": {"queue": "rest", "priority": 1}})
    message = stored(jobs.add.delay(1, 2))

    assert stored(jobs.add.delay(17, 2)).channel == "seventeen"
    assert (message.channel, message.priority) == ("rest", 10)


def test_an_option_of_none_leaves_the_route_of_a_function(settings: Any) -> None:
    settings.CELERY_TASK_ROUTES = lambda *args, **named: {"queue": "sums", "priority": 1}
    message = stored(jobs.add.apply_async((1, 2), queue=None, priority=None))

    assert (message.channel, message.priority) == ("sums", 10)


@pytest.mark.parametrize("route", [
    {"*": {"exchange": "x"}}, {"*": {"queue": "x", "routing_key": "y"}}, 17, {"*": 17},
])  # fmt: skip
def test_an_exchange_in_a_route_is_an_error(settings: Any, route: Any) -> None:
    settings.CELERY_TASK_ROUTES = route

    with pytest.raises(ImproperlyConfigured, match="task_routes: "):
        jobs.add.delay(1, 2)


def test_annotations_change_the_options_of_tasks(settings: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {"*.add": {"time_limit": 5, "rate_limit": "10/s"}}

    assert jobs.add.own.timeout.total_seconds() == 5
    assert jobs.add.rate_limit_now == "10/s"
    assert jobs.fail.own.timeout is None


def on_annotated_failure(self: Any, exc: Any, *args: Any) -> None:
    jobs.SEEN.append((self.name, str(exc)))


def test_an_annotation_sets_any_attribute(settings: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = [
        {jobs.fail.name: {"max_retries": 9, "queue": "fails"}},
        {"*": {"max_retries": 1, "on_failure": on_annotated_failure}},
    ]
    message = stored(jobs.fail.delay("no"))
    run_all()

    assert (message.channel, jobs.fail.max_retries, jobs.add.own.max_attempts) == ("fails", 9, 2)
    assert [(jobs.fail.name, "no")] == jobs.SEEN
    settings.CELERY_TASK_ANNOTATIONS = None
    assert (jobs.fail.own.queue_name, jobs.fail.max_retries) == ("default", 3)
    assert not jobs.fail.handlers


@pytest.mark.parametrize("annotation", [
    {"@__call__": print}, {"name": "other"}, {"run": print}, "10/s",
])  # fmt: skip
def test_an_annotation_that_can_not_be_is_an_error(settings: Any, annotation: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {jobs.add.name: annotation}

    with pytest.raises(ImproperlyConfigured, match=r"CELERY_TASK_ANNOTATIONS = .*:"):
        jobs.add.delay(1, 2)
    assert said() == {"CELERY_TASK_ANNOTATIONS": "pgqueue.E101"}
    settings.CELERY_TASK_ANNOTATIONS = {jobs.add.name: {"Request": "worker.Request"}}
    with pytest.raises(exceptions.Unsupported, match="Request"):
        jobs.add.delay(1, 2)


@pytest.mark.parametrize(("setting", "value"), [
    ("TASK_SERIALIZER", "pickle"), ("RESULT_SERIALIZER", "yaml"), ("ACCEPT_CONTENT", ["pickle"]),
    ("TASK_ALWAYS_EAGER", 1), ("TASK_TIME_LIMIT", "1"), ("BEAT_SCHEDULE", [1]),
    ("TASK_DEFAULT_QUEUE", ""), ("IMPORTS", [1]),
])  # fmt: skip
def test_a_setting_that_can_not_be_is_an_error_of_the_check(
    settings: Any, setting: str, value: Any
) -> None:
    setattr(settings, f"CELERY_{setting}", value)

    assert said() == {f"CELERY_{setting}": "pgqueue.E101"}


def test_the_check_says_what_has_no_effect_and_what_is_unknown(settings: Any) -> None:
    settings.CELERY_BROKER_URL = "redis://"
    settings.CELERY_RESULT_BACKEND = "django-db"
    settings.CELERY_WORKER_CONCURRENCY = 8
    settings.CELERY_ACCEPT_CONTENT = ["json"]
    settings.CELERY_TASK_ALWAYS_EAGERLY = True

    assert said() == {
        "CELERY_BROKER_URL": "pgqueue.I101",
        "CELERY_RESULT_BACKEND": "pgqueue.I101",
        "CELERY_WORKER_CONCURRENCY": "pgqueue.I101",
        "CELERY_TASK_ALWAYS_EAGERLY": "pgqueue.I102",
    }


@pytest.mark.parametrize("name", [
    "DEFAULT_TIMEOUT", "BEAT_HEARTBEAT_URL", "TASK_LOCKS", "RESULT_PAGE", "QUEUE_FACTOR",
])  # fmt: skip
def test_a_setting_of_the_project_s_own_is_told_as_one(settings: Any, name: str) -> None:
    setattr(settings, f"CELERY_{name}", 1)

    [found] = [each for each in check_settings(None) if name in each.msg]
    assert found.id == "pgqueue.I102"
    assert found.msg.startswith(f"CELERY_{name} is no setting of Celery's.")
    assert "Its name is" not in found.msg


def test_a_scheduler_whose_schedules_nobody_reads_is_refused(settings: Any) -> None:
    settings.CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
    with pytest.raises(SystemCheckError, match=r"E102.*\n.*pgqueue_import --from celery-beat"):
        call_command("runworker", "--drain", skip_checks=False)

    settings.CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"
    with pytest.raises(SystemCheckError, match="E102"):
        call_command("runworker", "--drain", skip_checks=False)
    settings.CELERY_BEAT_SCHEDULER = "celery.beat:PersistentScheduler"
    assert check_scheduler(None) == []


def test_an_override_is_noticed_in_any_namespace(settings: Any) -> None:
    app = Celery("shop")
    app.config_from_object("django.conf:settings", namespace="SHOP")
    before = app.conf.task_default_queue

    settings.SHOP_TASK_DEFAULT_QUEUE = "sums"

    assert (before, app.conf.task_default_queue) == (None, "sums")


def test_an_entry_that_is_added_to_a_schedule_in_place_is_of_its_app_alone() -> None:
    app = Celery("shop")

    app.conf.beat_schedule["nightly"] = {"task": jobs.add.name, "schedule": 60}

    assert list(app.conf.beat_schedule) == ["nightly"]
    assert Celery("other").conf.beat_schedule == {}


def test_without_a_namespace_settings_have_their_old_names(settings: Any) -> None:
    settings.CELERYBEAT_SCHEDULE = {"nightly": {"task": jobs.add.name, "schedule": 30}}
    settings.CELERY_ROUTES = {jobs.add.name: {"queue": "old"}}
    settings.CELERY_EAGER_PROPAGATES_EXCEPTIONS = True
    settings.CELERYD_TASK_TIME_LIMIT = 7
    settings.CELERY_TASK_RESULT_EXPIRES = 0
    settings.CELERYD_CONCURRENCY = 4
    settings.BROKER_URL = "redis://"
    settings.CELERY_NOTHING = 1
    app = Celery("old")
    app.config_from_object("django.conf:settings")

    assert app.conf.beat_schedule == settings.CELERYBEAT_SCHEDULE
    assert app.conf.task_eager_propagates and app.conf.result_expires is None
    assert app.conf.task_time_limit.total_seconds() == 7
    assert app.conf.broker_url == "redis://"
    jobs.mul.apply_async((1, 2), task_id="kept")
    assert Message.objects.get().dedupe_key == "kept"
    assert jobs.mul.own.timeout.total_seconds() == 7
    assert (told := said()) == {
        "CELERYD_CONCURRENCY": "pgqueue.I101", "CELERY_NOTHING": "pgqueue.I102",
    }, told  # fmt: skip
    settings.CELERY_ALWAYS_EAGER = "yes"
    assert said()["CELERY_ALWAYS_EAGER"] == "pgqueue.E101"
    app.config_from_object({"task_routes": "new", "CELERY_ROUTES": "old"})
    assert app.conf.task_routes == "new"


def test_an_old_name_behind_the_namespace_is_told_with_that_of_today(settings: Any) -> None:
    settings.CELERY_ROUTES = {}
    [told] = [each.msg for each in run_checks(tags=["pgqueue"]) if "CELERY" in each.msg]

    assert told == (
        "CELERY_ROUTES is no setting of Celery's. Its name is CELERY_TASK_ROUTES today."
    )


def test_all_names_of_a_module_of_settings_are_told() -> None:
    import datetime
    from types import ModuleType

    module = ModuleType("celeryconfig")
    vars(module).update(
        broker_url="redis://", worker_concurrency=8, task_routs={}, timezone="UTC", _own=1,
        datetime=datetime, helper=print, Upper=3,
    )  # fmt: skip
    app = Celery("x")
    app.config_from_object(module)

    assert set(app.conf.given()) == {"broker_url", "worker_concurrency", "task_routs", "timezone"}
    found = {each.msg.split(" ")[0]: each.id for each in run_checks(tags=["pgqueue"])}
    assert (found["broker_url"], found["worker_concurrency"]) == ("pgqueue.I101",) * 2
    assert found["task_routs"] == "pgqueue.I102"
    app.config_from_object("tests.compat.celery.test_settings.CONFIG")
    assert app.conf.task_track_started


def test_settings_of_others_can_be_set_and_read() -> None:
    app = Celery("x", broker="redis://", redbeat_redis_url="redis://1")
    app.conf.update(mongodb_backend_settings={}, own_setting=3)
    app.conf.task_retry_on_worker_lost = True

    assert (app.conf.broker_url, app.conf["redbeat_redis_url"]) == ("redis://", "redis://1")
    assert (app.conf.own_setting, app.conf.get("own_setting")) == (3, 3)
    assert app.conf.task_retry_on_worker_lost is True
    with pytest.raises(AttributeError, match="broker_read_url is not set, and has no effect"):
        app.conf.broker_read_url  # noqa: B018
    found = {each.msg.split(" ")[0]: each.id for each in run_checks(tags=["pgqueue"])}
    assert (found["mongodb_backend_settings"], found["own_setting"]) == (
        "pgqueue.I101", "pgqueue.I102",
    )  # fmt: skip


@pytest.mark.parametrize("part", [
    "amqp", "control", "events", "fixups", "loader", "log", "tasks",
])  # fmt: skip
def test_an_app_can_not_be_given_parts_that_are_not_here(part: str) -> None:
    with pytest.raises(exceptions.Unsupported, match=rf"Celery\({part}=…\): "):
        Celery("x", **{part: "proj.parts:Part"})
    with pytest.raises(exceptions.Unsupported, match=rf"Celery\({part}=…\): "):
        type("App", (Celery,), {f"{part}_cls": "proj.parts:Part"})("x")


def test_other_arguments_of_an_app_are_taken() -> None:
    class App(Celery):
        def on_init(self) -> None:
            self.begun = True

    app = App("x", autofinalize=False, fixups=None, changes={"imports": ["os"]})

    assert app.begun and app.conf.imports == ("os",)
    loose = Celery("x", strict_typing=False, set_as_current=False).task(_early)
    assert stored(loose.delay(1, 2, 3)).payload["args"] == [1, 2, 3]
    with pytest.raises(exceptions.Unsupported, match=r"app.setup_security: "):
        app.setup_security()


def test_an_app_knows_the_time(settings: Any) -> None:
    app = Celery("x", timezone="Europe/Berlin")

    assert str(app.timezone) == "Europe/Berlin"
    assert app.now().tzinfo is app.timezone
    app.conf.timezone = None
    assert str(app.timezone) == settings.TIME_ZONE
    assert app.GroupResult.restore("0.1") is None


CELERYS = """
import json
from celery.app import defaults

print(json.dumps({"names": sorted(defaults.SETTING_KEYS), "old": defaults._TO_NEW_KEY}))
"""


@pytest.mark.celery
def test_every_setting_of_celery_s_is_known() -> None:
    python = programs.python_of("CELERY_PYTHON", target="test-celery")
    done = subprocess.run([python, "-c", CELERYS], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)

    assert [name for name in theirs["names"] if name not in TAKEN and not why_needless(name)] == []
    for old, new in theirs["old"].items():
        if new in TAKEN and old != new.upper():
            assert name_of_old(old) == new
        elif old.startswith(("CELERY", "BROKER_")):
            assert name_of_old(old) in TAKEN or why_needless(name_of_old(old) or ""), old


def test_the_modules_of_packages_are_imported_where_there_are_any(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {
        "accounts/__init__.py": "", "accounts/apps.py": "class AccountsConfig: ...",
        "accounts/tasks.py": "", "plain.py": "", "broken/__init__.py": "import no_such_module",
        "half/__init__.py": "", "half/tasks.py": "import no_such_module",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    app = Celery("x")
    app.autodiscover_tasks(
        lambda: ["accounts.apps.AccountsConfig", "accounts", "plain"], force=True
    )

    assert "accounts.tasks" in sys.modules
    for package in ("broken", "half", "nowhere", "nowhere.apps.Config"):
        with pytest.raises(ModuleNotFoundError, match=r"no_such_module|nowhere"):
            Celery("y", set_as_current=False).autodiscover_tasks([package], force=True)
        current.discovery._wanted.pop()


def test_an_app_is_configured_from_objects_and_by_hand() -> None:
    class Config:
        task_default_queue = "of-object"
        task_time_limit = 10

    app = Celery("x", broker="redis://", backend="rpc://", include=["tests.compat.celery.jobs"])
    app.config_from_object(Config)
    assert app.conf.task_default_queue == app.conf["task_default_queue"] == "of-object"
    app.conf.update(task_default_queue="by-hand")
    app.conf.task_ignore_result = True
    app.add_defaults({"task_default_queue": "never", "timezone": "UTC"})

    assert (app.conf.task_default_queue, app.conf.timezone) == ("by-hand", "UTC")
    assert app.conf.get("task_routes") is None and "timezone" in app.conf
    assert stored(jobs.add.delay(1, 2)).channel == "by-hand"
    with pytest.raises(AttributeError, match="task_route"):
        app.conf.task_route  # noqa: B018
    app.config_from_object("tests.compat.celery.test_settings:CONFIG")
    assert app.conf.task_track_started
    app.config_from_object("no.such.module", silent=True)


CONFIG = {"task_track_started": True}


def test_no_setting_is_read_before_the_apps_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread:
        def __dir__(self) -> list[str]:
            raise AssertionError("It was read.")

    app = Celery("early")
    with monkeypatch.context() as early:
        early.setattr(apps, "ready", False)
        app.config_from_object(Unread(), namespace="CELERY")
        app.autodiscover_tasks()
        task = app.task(bind=True, name="early", rate_limit="1/s")(_early)
        assert registry.find("early") is None

    app.config_from_object({"task_default_queue": "late"})
    assert registry.find("early").origin is task
    assert task.own.queue_name == "late"


def _early(self: Any) -> None: ...


def test_a_queue_of_its_own_for_one_call_would_evade_a_rate_limit(settings: Any) -> None:
    settings.CELERY_TASK_ANNOTATIONS = {jobs.limited.name: {"rate_limit": "10/m"}}
    assert stored(jobs.limited.delay(1)).key == jobs.limited.name
    with pytest.raises(exceptions.Unsupported, match="its rate_limit is a policy"):
        jobs.limited.apply_async((1,), queue="faster")
    with pytest.raises(InvalidTask):
        jobs.limited.apply_async((1,), priority=11)
