"""What is said of a database that lacks our tables, or has old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import django.db
import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.signals import post_save

import pgqueue
from pgqueue import (
    InvalidSubscription,
    NotMigrated,
    PGQueueError,
    TaskResult,
    areceive,
    asend,
    batch,
    receive,
    send,
    send_many,
    watch,
)
from pgqueue.backend import PostgresBackend
from pgqueue.database.connections import connect
from pgqueue.database.migration_check import lack_of, needing_tables
from pgqueue.events import subscriptions
from pgqueue.models import Subscription
from pgqueue.operating.channels import Channel
from pgqueue.tasks import scheduling
from tests import jobs
from tests.unmigrated import empty_database, migrate

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def empty(transactional_db: None) -> Iterator[None]:
    """The database has no tables."""
    with empty_database():
        yield


def on_psycopgs_connection() -> None:
    with closing(connect("default", name="test")) as connection:
        jobs.add.using(connection=connection).enqueue(1)


def on_commit() -> None:
    with transaction.atomic():
        jobs.add.using(enqueue_on_commit=True).enqueue(1)


def together() -> None:
    with batch() as work:
        work.enqueue(jobs.add, 1)


def limit_together() -> None:
    with batch() as work:
        work.policy("mail", max_running=1)


def receive_all(**options: Any) -> None:
    with receive("mail", **options) as deliveries:
        list(deliveries)


async def receive_async() -> None:
    async with areceive("mail") as deliveries:
        async for _ in deliveries:
            pass


def watch_all() -> None:
    for _ in watch("mail"):
        pass


async def watch_async() -> None:
    async for _ in watch("mail"):
        pass


def result() -> TaskResult[int]:
    made: TaskResult[int] = TaskResult(jobs.add, (1,), {})
    made.id = "1"
    return made


CALLS: dict[str, Callable[[], Any]] = {
    "enqueue": lambda: jobs.add.enqueue(1),
    "enqueue of a delayed one": lambda: jobs.add.using(run_after=5).enqueue(1),
    "enqueue on a connection": on_psycopgs_connection,
    "enqueue on commit": on_commit,
    "enqueue, async": lambda: async_to_sync(jobs.add.aenqueue)(1),
    "enqueue_many": lambda: jobs.add.enqueue_many([(1,), (2,)]),
    "ordered": lambda: jobs.add.using(ordered=True, key="a").enqueue(1),
    "batch": together,
    "batch of policies": limit_together,
    "send": lambda: send("mail", {}),
    "send_many": lambda: send_many("mail", [{}, {}]),
    "send, async": lambda: async_to_sync(asend)("mail", {}),
    "get_result": lambda: jobs.add.get_result(1),
    "get_result of a backend": lambda: PostgresBackend("default", {}).get_result("1"),
    "refresh": lambda: result().refresh(),
    "wait": lambda: result().wait(1),
    "commit": lambda: result().commit(),
    "cancel": lambda: result().cancel(),
    "policy": lambda: Channel("mail").policy(max_running=1),
    "policies": lambda: Channel("mail").policies(),
    "policy_of": lambda: Channel("mail").policy_of("a"),
    "remove_policy": lambda: Channel("mail").remove_policy(),
    "pause": lambda: Channel("mail").pause(),
    "resume": lambda: Channel("mail").resume(),
    "configure": lambda: Channel("mail").configure(watched=True),
    "configured": lambda: Channel("mail").configured(),
    "stats": lambda: Channel("mail").stats(),
    "all_stats": lambda: Channel.all_stats(),
    "drain": lambda: Channel("mail").drain(),
    "release": lambda: Channel("mail").release(),
    "purge": lambda: Channel("mail").purge(),
    "cancel all": lambda: Channel("mail").cancel(),
    "replay": lambda: Channel("mail").replay(),
    "run a schedule": lambda: scheduling.run("nightly"),
    "receive": receive_all,
    "receive, async": lambda: async_to_sync(receive_async)(),
    "watch": watch_all,
    "watch, async": lambda: async_to_sync(watch_async)(),
}


def misleading(call: Callable[[], Any]) -> str:
    """Return the answer of a call; "" if its error names the missing table and the remedy."""
    try:
        return f"returned {call()!r}"
    except NotMigrated as error:
        is_named = "pgqueue_" in error.found and error.found.endswith("does not exist")
        is_said = str(error) == f"{error.found}: run manage.py migrate"
        return "" if is_named and is_said else f"raised {error!r}"


def test_each_call_names_what_is_missing_and_what_to_do(empty: None) -> None:
    answers = {name: misleading(call) for name, call in CALLS.items()}

    assert {name: answer for name, answer in answers.items() if answer} == {}


def test_the_error_is_caught_as_ours_as_djangos_and_as_psycopgs() -> None:
    assert pgqueue.NotMigrated is NotMigrated
    for kind in (PGQueueError, django.db.ProgrammingError, psycopg.ProgrammingError):
        assert issubclass(NotMigrated, kind)


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
@pytest.mark.parametrize(
    "call",
    [
        lambda: jobs.add.using(database="second").enqueue(1),
        lambda: send("mail", {}, database="second"),
        lambda: Channel("mail", database="second").pause(),
        lambda: Channel("mail", database="second").stats(),
        lambda: receive_all(database="second"),
    ],
)
def test_another_database_is_named(call: Callable[[], Any]) -> None:
    with (
        empty_database("second"),
        pytest.raises(NotMigrated, match="run manage.py migrate --database=second$"),
    ):
        call()


def test_an_old_schema_names_the_function_that_is_missing(empty: None) -> None:
    migrate("0002_storage")

    with pytest.raises(NotMigrated, match="function pgqueue_enqueue_now_v1.* does not exist"):
        jobs.add.enqueue(1)


def test_an_old_table_names_the_column_that_is_missing(empty: None) -> None:
    migrate()
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE pgqueue_channel RENAME watched TO listened_to")

    with pytest.raises(NotMigrated, match="column .*watched.* does not exist: run manage"):
        Channel("mail").configure(watched=True)


@pytest.mark.parametrize("tracer", ["sentry_sdk.utils", "ddtrace.contrib", "wrapt.wrappers"])
def test_it_is_named_under_a_tracer_of_statements(
    empty: None, tracer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate()
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE pgqueue_channel RENAME watched TO listened_to")
    code = "def execute(self, *args, **kwargs):\n    return original(self, *args, **kwargs)"
    names: dict[str, Any] = {"__name__": tracer, "original": CursorWrapper.execute}
    exec(code, names)  # noqa: S102
    monkeypatch.setattr(CursorWrapper, "execute", names["execute"])

    with pytest.raises(NotMigrated, match="column .*watched.* does not exist: run manage"):
        Channel("mail").configure(watched=True)


@pytest.mark.parametrize("missing", ["FROM elsewhere", "elsewhere()", "elsewhere"])
def test_what_a_users_trigger_lacks_is_not_taken_for_ours(
    transactional_db: None, missing: str
) -> None:
    with transaction.atomic(), pytest.raises(django.db.ProgrammingError) as raised:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION users() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN PERFORM {'1 ' if 'FROM' in missing else ''}{missing}; RETURN new; END $$"
            )
            cursor.execute(
                "CREATE TRIGGER users BEFORE INSERT ON pgqueue_message "
                "FOR EACH ROW EXECUTE FUNCTION users()"
            )
        jobs.add.enqueue(1)

    assert not isinstance(raised.value, NotMigrated)


def test_other_errors_lack_nothing() -> None:
    assert lack_of(ValueError()) is None
    assert lack_of(psycopg.errors.UniqueViolation("pgqueue_message")) is None


@pytest.mark.parametrize(
    "command",
    [
        ["pgqueue_channel", "list"],
        ["pgqueue_channel", "pause", "mail"],
        ["pgqueue_schedule", "list"],
        ["pgqueue_schedule", "run", "nightly"],
        ["pgqueue_maintain"],
    ],
    ids=" ".join,
)
def test_a_command_says_the_same_without_a_traceback(empty: None, command: list[str]) -> None:
    with pytest.raises(CommandError, match="does not exist: run manage.py migrate$"):
        call_command(*command)


class TestWhatIsMissingOfOthers:
    """It is said as it is: `manage.py migrate` would not bring it."""

    def test_a_column_in_a_predicate_is_named(self) -> None:
        with pytest.raises(InvalidSubscription, match=r"column e\.total does not exist"):
            subscriptions.create("own", channel="own", predicate="e.total > 3")

    def test_a_function_in_a_predicate_is_named_though_it_is_called_as_ours(self) -> None:
        with pytest.raises(InvalidSubscription, match="function pgqueue_nothing"):
            subscriptions.create("own", channel="own", predicate="pgqueue_nothing(1)")

    @pytest.mark.parametrize(
        "query",
        [
            "SELECT total FROM auth_user",
            "SELECT u.total FROM auth_user u",
            "SELECT auth_user.total FROM auth_user",
            "SELECT FROM shop_nothing",
            "SELECT nothing(1)",
            "DROP ROLE pgqueue_nobody",
            "DROP PUBLICATION pgqueue_nothing",
        ],
    )
    @pytest.mark.parametrize("by", ["django", "psycopg"])
    def test_in_a_statement_of_the_user_is_no_matter_of_ours(self, query: str, by: str) -> None:
        with pytest.raises(Exception, match="does not exist") as raised, needing_tables("default"):
            if by == "django":
                with connections["default"].cursor() as cursor:
                    cursor.execute(query)
            else:
                with closing(connect("default", name="test")) as connection:
                    connection.execute(query)

        assert not isinstance(raised.value, NotMigrated)

    def test_of_a_model_is_no_matter_of_ours_whoever_asks(self) -> None:
        code = compile("rows.first()", "pgqueue/asking.py", "exec")
        rows = User.objects.extra(where=["auth_user.total > 1"])

        with pytest.raises(Exception, match="does not exist") as raised, needing_tables("default"):
            exec(code, {"__name__": "pgqueue.asking", "rows": rows})  # noqa: S102

        assert not isinstance(raised.value, NotMigrated)

    def test_beside_a_receiver_that_fails_of_it(self) -> None:
        def receiver(**named: Any) -> None:
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT total FROM auth_user")

        post_save.connect(receiver, sender=Subscription)
        try:
            with pytest.raises(django.db.ProgrammingError, match="total") as raised:
                subscriptions.create("own", channel="own")
        finally:
            post_save.disconnect(receiver, sender=Subscription)

        assert not isinstance(raised.value, NotMigrated)

    def test_of_ours_is_said_so_all_the_same(self) -> None:
        code = compile("cursor.execute('SELECT m.total FROM pgqueue_message m')", "x.py", "exec")

        with (
            pytest.raises(NotMigrated, match=r"m\.total does not exist: run manage.py migrate"),
            needing_tables("default"),
            connections["default"].cursor() as cursor,
        ):
            exec(code, {"__name__": "pgqueue.asking", "cursor": cursor})  # noqa: S102
