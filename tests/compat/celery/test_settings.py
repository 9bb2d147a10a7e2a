"""Celery's settings, as projects have them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from pgqueue import registry
from pgqueue.compat.celery import Celery, exceptions
from pgqueue.exceptions import InvalidTask
from pgqueue.models import Message
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
    with pytest.raises(ImproperlyConfigured, match="Did you mean 'task_routes'"):
        app.conf.update(task_route={})
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
