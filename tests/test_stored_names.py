"""Names in tables: they import and call what is declared, and nothing else."""

from __future__ import annotations

import ast
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

import pgqueue
from pgqueue import (
    Channel,
    receive,
    send,
    task,
)
from pgqueue.backend import api
from pgqueue.backend.backends import PostgresBackend
from pgqueue.backend.results import PostgresTaskError
from pgqueue.exceptions import InvalidSchedule, InvalidTask, UnknownTask, UnreadablePayload
from pgqueue.models import Message, Schedule
from pgqueue.operating import importers
from pgqueue.options.retries import Exponential, dump_backoff, load_backoff
from pgqueue.tasks import options, registry, scheduling
from tests import gates, jobs
from tests.backend import jobs as django_jobs
from tests.durable import tasks as durable_jobs

ME = __name__
called: list[str] = []


def undeclared(*args: object) -> float:
    """Be importable, imported, and no task."""
    called.append("undeclared")
    return 0


NAMES = [
    *(f"{ME}.undeclared", f"{ME}.called.append", f"{ME}.NAMES", ME),
    *("tests.trap.function", "tests.trap.Class.method", "tests.trap.method"),
    *("tests.trap.inner", "tests.trap"),
    *("this.zen", "os.system", "builtins.exec", "django.core.management.call_command"),
    *("tests.jobs.add.func", "tests.jobs.add.__call__", "pgqueue.task", "pgqueue.no_such_name"),
    *("tests.benchmarks.__main__.main", "__main__.main", "no_such_module.function", "no_dots"),
    *("..x", ".", "..", "tests..trap.function", ".trap.function", "tests.trap.", " ", "a b.c", "…"),
    *("tests/trap.function", "x." * 499 + "y", "tests.trap.function()"),
]
"""Import paths of what is no task, and texts that are no import paths at all."""


@pytest.fixture(autouse=True)
def _nothing_is_imported_or_called(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    called.clear()
    before = set(sys.modules)
    with caplog.at_level(logging.INFO):
        yield
    new = set(sys.modules) - before
    assert called == []
    assert not {"tests.trap", "this", "tests.benchmarks.__main__"} & new


def drain() -> None:
    call_command("runworker", "--drain", "--threads", "1", verbosity=1)


def have_messages(**columns: Any) -> None:
    Message.objects.create(channel="default", state="ready", max_attempts=5, **columns)


class TestANameThatIsNoTask:
    @pytest.mark.parametrize("name", ["", *NAMES])
    def test_is_unknown(self, name: str) -> None:
        assert registry.find(name) is None

    @pytest.mark.django_db(transaction=True)
    def test_in_a_message_is_handed_back_uncharged_and_without_a_traceback(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in NAMES:
            have_messages(task=name, payload={"args": [], "kwargs": {}})

        drain()

        left = Message.objects.values_list("state", "failures").distinct()
        assert list(left) == [("scheduled", 0)]
        assert not [record for record in caplog.records if record.exc_info]

    @pytest.mark.django_db(transaction=True)
    def test_as_a_channels_handler_gets_no_message(self, caplog: pytest.LogCaptureFixture) -> None:
        for number, name in enumerate(NAMES):
            if len(name) < 1000:
                Channel(f"c{number}").configure(handler=name)
                send(f"c{number}", 1)

        drain()

        left = Message.objects.values_list("state", "failures").distinct()
        assert list(left) == [("scheduled", 0)]
        assert not [record for record in caplog.records if record.exc_info]

    @pytest.mark.django_db
    @pytest.mark.parametrize("name", NAMES)
    def test_in_a_schedule_is_refused(self, name: str) -> None:
        row = Schedule(name="s", task=name, every=None, cron="@daily")
        Schedule.objects.create(name="s", task=name[:200], cron="@daily", timezone="UTC")

        with pytest.raises(InvalidSchedule):
            scheduling.check_schedule(row)
        with pytest.raises(UnknownTask):
            scheduling.run("s")

    @pytest.mark.django_db(transaction=True)
    def test_has_no_arguments_for_a_consumer_and_no_result_for_django(self) -> None:
        for name in NAMES:
            have_messages(task=name, payload={"args": [], "kwargs": {}})
        backend = api.task_backends["default"]

        with receive("default", limit=100) as deliveries:
            for delivery in deliveries:
                with pytest.raises(UnreadablePayload):
                    delivery.args  # noqa: B018
                with pytest.raises(api.TaskResultDoesNotExist):
                    backend.get_result(str(delivery.id))

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("name", ["tests.trap.function", f"{ME}.undeclared", "..x"])
    def test_in_another_queue_is_left_there(self, name: str) -> None:
        report = importers.ImportReport()
        job = importers.Pending(
            **{
                **dict.fromkeys(importers.Pending._fields),
                "task": name,
                "args": "[]",
                "kwargs": "{}",
                "queue": "default",
            }
        )

        assert not importers._take(job, "default", report)


class TestATask:
    def test_in_a_module_of_the_project_is_found_by_its_name(self) -> None:
        sys.modules.pop("tests.late", None)
        registry.tasks.pop("tests.late.twice", None)

        found = registry.find("tests.late.twice")

        assert found is not None
        assert found(2) == 4

    def test_is_found_while_another_thread_imports_its_module(self) -> None:
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(registry.find, "tests.late_slowly.thrice")
            assert gates.entered.wait(10)
            second = threads.submit(registry.find, "tests.late_slowly.thrice")
            with pytest.raises(TimeoutError):
                second.result(0.2)

            gates.opened.set()

            assert second.result(10) is first.result(10) is not None

    def test_of_django_tasks_is_found_by_its_name(self) -> None:
        found = registry.find("tests.backend.jobs.add")

        assert found is not None
        assert found.func is django_jobs.add.func


class TestABackoff:
    def test_that_is_declared_is_found_where_nothing_has_imported_it(self) -> None:
        sys.modules.pop("tests.late", None)

        found = load_backoff("tests.late.at_once")

        assert found(ValueError(), None) == 0

    def test_of_a_task_or_of_the_settings_is_declared_by_that(self, settings: Any) -> None:
        settings.PGQUEUE = {"BACKOFF": undeclared_but_for_the_settings}
        pgqueue.conf.settings()

        assert (
            dump_backoff(undeclared_but_for_the_settings) == f"{ME}.undeclared_but_for_the_settings"
        )
        assert load_backoff("tests.jobs.give_up_on_value_errors") is jobs.give_up_on_value_errors

    def test_that_is_not_declared_is_refused_as_it_is_enqueued(self) -> None:
        with pytest.raises(InvalidTask, match=r"undeclared can't be stored.*@pgqueue\.backoff"):
            jobs.add.using(backoff=undeclared).enqueue(1)

    def test_must_be_a_function_at_the_top_of_a_module(self) -> None:
        for wrong in (lambda error, result: 1, Exponential(), int, "tests.late.at_once"):
            with pytest.raises(InvalidTask, match="at the top"):
                pgqueue.backoff(wrong)  # type: ignore[type-var]

    @pytest.mark.parametrize("described", [*NAMES, "", {"base": "x"}, {"no": 1}, [], ["x"], 1])
    def test_that_is_unknown_leaves_the_tasks_own_and_is_logged_once(
        self, described: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        options._warn_of_backoff.cache_clear()
        declared = jobs.add.using(backoff=[7])

        for _ in range(2):
            task = declared.for_message(json.dumps({"backoff": described}).encode())
            assert task.backoff == declared.backoff

        [record] = caplog.records
        assert "its task's own applies" in record.getMessage()
        assert record.exc_info is None

    @pytest.mark.django_db(transaction=True)
    def test_of_a_message_is_never_called_unless_it_is_declared(self) -> None:
        have_messages(
            task=f"{ME}.fail",
            payload={"args": [], "kwargs": {}},
            options={"backoff": f"{ME}.undeclared"},
        )

        drain()

        assert Message.objects.get().state == "dead"  # by now: it waited as its task's own says

    @pytest.mark.django_db(transaction=True)
    def test_of_a_message_holds_for_it_if_it_is_declared(self) -> None:
        have_messages(
            task="tests.jobs.fail",
            payload={"args": ["no"], "kwargs": {}},
            options={"backoff": "tests.late.at_once"},
        )

        drain()

        assert Message.objects.get().state == "dead"


def undeclared_but_for_the_settings(error: BaseException, result: object) -> float:
    return 0


@task(max_attempts=2, backoff=[0])
def fail() -> None:
    raise ValueError("always")


class TestOtherOptions:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"timeout": "1"},
            {"timeout": -1},
            {"timeout": 1e300},
            {"atomic": "read uncommitted; DROP TABLE x"},
            {"atomic": 3},
            ["backoff"],
            "backoff",
            3,
        ],
    )
    def test_that_cannot_be_make_the_message_unreadable(self, wrong: Any) -> None:
        with pytest.raises(UnreadablePayload):
            jobs.add.for_message(json.dumps(wrong).encode())

    def test_of_a_kind_of_tasks_are_checked_for_tasks_of_that_kind(self) -> None:
        adopted = registry.find("tests.backend.jobs.add")

        with pytest.raises(UnreadablePayload):
            adopted.for_message(b'{"backend": 3}')

    def test_hold_against_options_that_the_task_has_declared_since(self) -> None:
        stored = json.dumps({"timeout": 600}).encode()
        limited = jobs.add.using(hard_timeout=300)

        changed = limited.for_message(stored)
        assert (changed.limits[0].after, changed.hard_timeout) == (timedelta(minutes=10), None)
        assert limited.using(hard_timeout=900).for_message(stored).hard_timeout is not None
        changed = jobs.add.using(timeout=600).for_message(b'{"hard_timeout": 300}')
        assert (changed.limits, changed.hard_timeout) == ((), timedelta(minutes=5))

    def test_of_an_atomic_run_are_left_out_once_the_task_is_durable(self) -> None:
        changed = durable_jobs.plain.for_message(b'{"atomic": true, "timeout": 5}')

        assert (changed.atomic, changed.timeout) == (False, timedelta(seconds=5))

    def test_that_are_unknown_change_nothing(self) -> None:
        wrong = {"func": "tests.trap.function", "connection": "x", "key": "x", "backend": "x"}

        changed = jobs.add.for_message(json.dumps(wrong).encode())

        assert (changed.func, changed.connection, changed.key) == (jobs.add.func, None, "")

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("backend", ["tests.trap.function", "no", "", 3, ["default"], None])
    def test_of_django_tasks_backends_are_names_of_the_settings(self, backend: Any) -> None:
        found = registry.find("tests.backend.jobs.add")
        described = json.dumps({"backend": backend})

        assert found.backend_of(described) == "default"  # type: ignore[union-attr]
        assert found.sender_of(described) is PostgresBackend  # type: ignore[union-attr]


class TestAnError:
    @pytest.mark.parametrize("name", NAMES)
    def test_names_a_class_of_which_nothing_is_imported(self, name: str) -> None:
        error = PostgresTaskError(exception_class_path=name, traceback="")

        with pytest.raises((ImportError, ValueError)):
            error.exception_class  # noqa: B018

    def test_names_a_class_that_is_imported(self) -> None:
        error = PostgresTaskError(exception_class_path="builtins.ValueError", traceback="")

        assert error.exception_class is ValueError


def test_no_other_file_imports_or_evaluates_by_name() -> None:
    by_name = {"import_module", "import_string", "__import__", "eval", "exec", "loads"}
    package = Path(pgqueue.__file__).parent
    found = {
        (str(path.relative_to(package)), name)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for name in [getattr(node.func, "attr", getattr(node.func, "id", ""))]
        if name in by_name and not (name == "loads" and ast.unparse(node.func) == "json.loads")
    }

    assert found == {
        ("__init__.py", "import_module"),  # its own names
        ("admin/visitors.py", "import_module"),  # what SESSION_ENGINE says
        ("apps.py", "import_string"),  # what TASKS says
        ("arrow/extensions.py", "import_module"),  # modules of the packages of extras
        ("lake/formats.py", "import_module"),  # modules of its formats
        ("durable/links.py", "loads"),  # django.core.signing's, which reads JSON
        ("compat/celery/app/__init__.py", "import_string"),  # what the code gives as task_cls
        ("compat/celery/alias.py", "import_module"),  # modules of this package by other names
        ("compat/celery/conf.py", "import_module"),  # what the code configures an app from
        ("compat/celery/conf.py", "import_string"),  # the same, where it is no module
        ("compat/celery/current.py", "import_module"),  # what the code lists
        ("compat/celery/porting.py", "import_module"),  # modules of this package
        ("compat/celery/routes.py", "import_string"),  # what task_routes say
        ("management/commands/pgqueue_export.py", "import_string"),  # what --events names
        ("tasks/tenants.py", "import_module"),  # what PGQUEUE["TENANT"] says
        ("tasks/tenants.py", "import_string"),  # the same, where it is no module
        ("values/discovery.py", "import_module"),
        ("worker/migrations.py", "import_module"),  # the migrations, by their files' names
    }


def test_no_file_imports_what_runs_code_as_it_reads_data() -> None:
    unsafe = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "yaml"}
    package = Path(pgqueue.__file__).parent
    imported = [
        (str(path.relative_to(package)), name)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
    ]

    assert ("values/discovery.py", "ast") in imported
    assert [each for each in imported if each[1].partition(".")[0] in unsafe] == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
