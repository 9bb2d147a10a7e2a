import gc
import math
import os
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.db import connections, transaction
from django.test import TransactionTestCase
from hypothesis import settings
from pytest_django import DjangoDbBlocker

from tests import left_sessions, marks, programs, server, template

# As nohup or a shell's "&" leaves them, all processes that tests start would ignore them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time: what lands is not a matter of luck. To look for more,
# `pytest --hypothesis-profile=default`, which finds others in each run.
settings.register_profile("repeatable", derandomize=True)
# Where CI is set, hypothesis has a default profile that draws the same examples each time.
settings.register_profile("many", max_examples=5_000, deadline=None, derandomize=False)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have `--feed wal` run the tests of the event log while the WAL is followed."""
    parser.addoption("--feed", choices=["poll", "wal"], default="poll", help="of the event log")


def pytest_configure(config: pytest.Config) -> None:
    """Start the embedded server and keep it up while the tests run."""
    if "DATABASE_URL" not in os.environ and not _is_xdist_worker(config):
        server.hold()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that have no test with the mark for which `-m` asks."""
    if not collection_path.match("test_*.py"):
        return None
    return None if marks.may_have_tests(collection_path, config.getoption("markexpr")) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what was collected out of each further collection of garbage.

    A process of the tests holds millions of objects that it never frees, and would visit them again
    and again. Collections stay as frequent as they are for users: some connections end by one.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Drop the template, once all processes of pytest-xdist have ended; keep how the run ended."""
    cache = getattr(session.config, "cache", None)  # None after `-p no:cacheprovider`
    if cache and not _is_xdist_worker(session.config):
        # For `.ci/failed`: of a run that broke off, not all failures are known.
        cache.set("cache/exitstatus", int(exitstatus))
    if session.config.getoption("numprocesses", None) and not _is_xdist_worker(session.config):
        template.drop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the programs that are missing, and how many tests were skipped for this reason."""
    reasons = [each.longrepr[2] for each in terminalreporter.stats.get("skipped", [])]
    if line := programs.summary(reasons):
        terminalreporter.line(line, yellow=True)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note the test that begins: a session that is left behind is a test's."""
    left_sessions.note(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.CollectReport | pytest.TestReport,
) -> Generator[None, Any, Any]:
    """Escape lone surrogates in what a test printed: pytest-xdist cannot send them."""
    return _without_surrogates((yield))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_without_surrogates, value))
    return value


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.fixture
def own_tasks() -> Iterator[None]:
    """Forget the tasks that a test declares when the test has ended."""
    from pgqueue.tasks import declaration  # which needs Django's settings

    with patch.dict(declaration.tasks):
        yield


@pytest.fixture(autouse=True)
def _own_groups() -> Iterator[None]:
    """Forget the groups that a test declares after it: `run_all()` calls all handlers."""
    from pgqueue.events import consumers  # which needs Django's settings

    with patch.dict(consumers._consumers):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest,
    django_db_modify_db_settings_parallel_suffix: None,
    django_db_blocker: DjangoDbBlocker,
    testrun_uid: str,
) -> None:
    """Give each process of pytest-xdist copies of one migrated database."""
    if _is_xdist_worker(request.config):
        with django_db_blocker.unblock():
            template.use(testrun_uid)


@pytest.fixture(scope="session", autouse=True)
def _tables_are_swept() -> Iterator[None]:
    """Empty the tables by DELETE after a test that commits.

    Django's way, a TRUNCATE of every table and what migrations do at their end, takes longer than
    most tests.
    """

    def sweep(test: TransactionTestCase) -> None:
        for alias in test._databases_names(include_mirrors=False):
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                cursor.execute("; ".join(f'DELETE FROM "{name}"' for name in _tables(alias)))  # noqa: S608

    with patch.object(TransactionTestCase, "_fixture_teardown", sweep):
        yield


@pytest.fixture(scope="session", autouse=True)
def _kept_sessions(django_db_setup: None) -> Iterator[Any]:
    """Keep sessions from one test to the next; see `tests.kept_sessions`."""
    from tests.kept_sessions import KeptSessions  # which needs Django's settings

    sessions = KeptSessions()
    with sessions.kept():
        yield sessions


@pytest.fixture(autouse=True)
def _new_sessions(request: pytest.FixtureRequest, _kept_sessions: Any) -> Iterator[None]:
    """Give a test marked `new_sessions` sessions of its own."""
    if request.node.get_closest_marker("new_sessions") is None:
        yield
        return
    _kept_sessions.clear()
    with patch.object(_kept_sessions, "is_on", False):
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_session_is_left(_kept_sessions: Any, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End sessions that tests left behind, and fail: no database is dropped under them."""
    yield
    _kept_sessions.is_on = False  # what a thread closes from now on is closed
    _kept_sessions.clear()
    with django_db_blocker.unblock():
        left = left_sessions.end()
    if left:
        pytest.fail("Tests have left sessions behind:\n" + "\n".join(map(str, left)), pytrace=False)


@cache
def _tables(alias: str) -> list[str]:
    # A worker that was killed may still have a statement running, which moves rows on from these
    # two: to delete from them waits for its end, and what it has moved is deleted behind it.
    first = ["pgqueue_message", "pgqueue_event_inbox"]
    kept = {"django_migrations", "django_content_type", "auth_permission"}
    introspection = connections[alias].introspection
    names = introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(names) - kept, key=lambda name: (name not in first, name))


@pytest.fixture
def looks_are_expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let who looks from the front in vain not look again for a second; see `free_lanes`."""
    constants = {"EXPENSIVE": 0, "LOOK_AGAIN_COST_WHEN_IDLE": math.inf, "LOOK_AGAIN_COST": math.inf}
    for name, value in {**constants, "LOOK_AGAIN_AT_LATEST": 1.0}.items():
        monkeypatch.setattr(f"pgqueue.claiming.free_lanes.{name}", value)


@pytest.fixture
def queue(db: None) -> psycopg.Connection[Any]:
    """Django's own connection, in the transaction of the test, for the engine's verbs."""
    with connections["default"].cursor() as cursor:
        # What it begins is the test's: the first transaction() of psycopg would commit, else.
        cursor.execute("SELECT 1")
    connection: psycopg.Connection[Any] = connections["default"].connection
    return connection
