"""Every column of every table, with the extremes of its type: a write is refused, or does no harm.

Tables, columns and functions are those that the database has: a new one is tried by itself.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, cycle
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from psycopg.sql import SQL, Composed, Identifier, Literal

from pgqueue.database.connections import conninfo
from pgqueue.metrics.exposition import of_the_queue
from pgqueue.models import History, Message
from pgqueue.operating.roles import script
from tests import jobs, programs
from tests.admin.places import ROOT, admins, make_world
from tests.eventually import eventually
from tests.management.calling import call
from tests.processes import starting

pytestmark = pytest.mark.slow

T = TypeVar("T")
BUCKETS = "{" + ",".join(["0"] * 24) + "}"
HUGE = "9" * 5000
DEEP = "[" * 900 + "]" * 900
EXTREMES: dict[str, list[str]] = {
    "timestamptz": [
        "infinity",
        "-infinity",
        "4713-01-01 00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "0001-01-01 00:00+00",
        "9999-12-31 23:59:59.999999+00",
        "0001-01-03 00:00+00",
        "9999-12-29 00:00+00",
    ],
    "interval": ["178000000 years", "-178000000 years", "36525 days", "0", "-1 microsecond"],
    "int2": ["-32768", "32767", "-1", "0"],
    "int4": ["-2147483648", "2147483647", "2147483646", "-1", "0"],
    "int8": [
        "-9223372036854775808",
        "9223372036854775807",
        "9223372036854775806",
        "4611686018427387904",
        "-1",
        "0",
    ],
    "float8": ["NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "-1e308", "5e-324"],
    "text": ["", "x" * 20_000, "\x1b[31m\r\n\t\x7f", "\U0010ffff\u202e\u2028", "'\"\\;{}%s"],
    "bytea": ["", "\\x00ff"],
    "jsonb": [
        "null",
        "7",
        '"text"',
        "[]",
        "{}",
        "[[]]",
        '[{"at": "never", "attempt": [], "class": {}, "message": 7}]',
        f'{{"a": {HUGE}}}',
        f'{{"a": {DEEP}}}',
        '{"a": 1e10000}',
        '{"stop": "soon", "threads": [], "version": {}}',
        '{"args": 1, "kwargs": []}',
    ],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "bool": ["true", "false"],
    "xid8": ["0", "3", "18446744073709551615"],
    "int8multirange": ["{}", "{(,)}", "{[1,2),[9223372036854775807,)}"],
    "_text": ["{}", "{NULL}", "{{a},{b}}", '{""}'],
    "_timestamptz": [
        "{}",
        "{NULL}",
        "{{2026-01-02},{2026-01-03}}",
        "{infinity}",
        "{-infinity}",
        "{0001-01-03 00:00+00,9999-12-29 00:00+00}",
        "[5:5]={2026-01-02}",
    ],
    "_int8": [
        "{}",
        "{NULL}",
        "{{1},{2}}",
        "{9223372036854775807}",
        "{-1}",
        "[5:5]={1}",
        BUCKETS.replace("0", "-1"),
        BUCKETS.replace("0", "1000000000000"),
    ],
}
REFUSALS = ("22", "23", "54", "42501")
"""SQLSTATEs of a refusal: by its type, a constraint, a limit of the server, or a right."""


@dataclass(frozen=True)
class Column:
    table: str
    name: str
    type: str
    is_unique: bool
    is_generated: bool


@cache
def columns() -> dict[str, list[Column]]:
    """Return the columns of our tables, by table."""
    found = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT c.relname, a.attname, t.typname, a.attgenerated <> '' OR a.attidentity = 'a',
                      EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique
                              AND a.attnum = ANY (i.indkey))
               FROM pg_class c
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               JOIN pg_type t ON t.oid = a.atttypid
               -- Its one row is made by a migration.
               WHERE c.relname ~ '^pgqueue_' AND c.relname <> 'pgqueue_identity'
                 AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               ORDER BY c.relname, a.attnum"""
        )
        for table, name, kind, is_generated, is_unique in cursor.fetchall():
            found[table].append(Column(table, name, kind, is_unique, is_generated))
    return dict(found)


NUMBERS = count(1_000_000)
IDS = count(10**9)
"""Of messages: beyond those that their sequence gives in any run of the tests."""
PLAIN: dict[str, Callable[[], str]] = {
    "timestamptz": lambda: "2026-01-02 03:04:05+00",
    "interval": lambda: "1 day",
    "int2": lambda: "1",
    "int4": lambda: "1",
    "int8": lambda: "1",
    "float8": lambda: "1",
    "text": lambda: "plain",
    "bytea": lambda: "x",
    "jsonb": lambda: "{}",
    "uuid": lambda: str(uuid4()),
    "bool": lambda: "false",
    "xid8": lambda: "3",
    "int8multirange": lambda: "{[1,2)}",
    "_text": lambda: "{}",
    "_timestamptz": lambda: "{2026-01-02 03:04:05+00}",
    "_int8": lambda: "{0}",
}
OWN = {
    ("pgqueue_message", "task"): "tests.jobs.nothing",
    ("pgqueue_message", "channel"): "extreme",
    ("pgqueue_message", "payload"): '{"args": [], "kwargs": {}}',
    ("pgqueue_message", "state"): "ready",
    ("pgqueue_message", "expires_at"): None,
    ("pgqueue_message", "parent_id"): None,
    ("pgqueue_message", "flow_id"): None,
    ("pgqueue_message", "cancel_requested_at"): None,
    ("pgqueue_message", "errors"): "[]",
    ("pgqueue_message", "max_attempts"): "5",
    ("pgqueue_message", "dedupe_key"): None,
    ("pgqueue_history", "outcome"): "succeeded",
    ("pgqueue_history", "errors"): "[]",
    ("pgqueue_history", "finished_at"): "now",
    ("pgqueue_history", "flow_id"): None,
    ("pgqueue_blocked", "on_failure"): "wait",
    ("pgqueue_channel", "on_dead"): "skip",
    ("pgqueue_channel", "on_full"): "refuse",
    ("pgqueue_lane", "state"): "idle",
    ("pgqueue_policy", "scope"): "channel",
    ("pgqueue_policy", "key"): "",
    ("pgqueue_policy", "weight"): None,
    ("pgqueue_schedule", "cron"): "",
    ("pgqueue_schedule", "timezone"): "UTC",
    ("pgqueue_schedule", "missed"): "skip",
    ("pgqueue_schedule", "overlap"): "allow",
    ("pgqueue_schedule", "args"): "[]",
    ("pgqueue_schedule", "recent"): "[]",
    ("pgqueue_schedule", "task"): "tests.jobs.nothing",
    ("pgqueue_subscription", "predicate"): "",
    ("pgqueue_subscription", "task"): "tests.jobs.nothing",
    ("pgqueue_subscription", "key_path"): "",
    ("pgqueue_subscription", "split_path"): "",
    ("pgqueue_subscription", "path"): "",
    ("pgqueue_subscription", "eq_path"): "",
    ("pgqueue_subscription", "regex"): "",
    ("pgqueue_webhook", "rotated"): "[]",
    ("pgqueue_webhook", "enabled"): "false",
    ("pgqueue_statistic", "period"): "minute",
    ("pgqueue_step", "kind"): "step",
    ("pgqueue_step", "state"): "done",
    ("pgqueue_step", "until"): None,
    ("pgqueue_event_wait", "path"): "",
    ("pgqueue_backfill", "attempts"): "[]",
    ("pgqueue_worker", "channels"): "{}",
    **{
        (f"pgqueue_{name}", column): BUCKETS
        for name in ("tally", "statistic", "total")
        for column in ("waits", "runs")
    },
}
"""What a plain row has in a column, where the plain value of its type would say nothing."""


def plain(column: Column) -> str | None:
    is_key = column.is_unique or (column.table, column.name) == ("pgqueue_history", "id")
    if is_key and column.type in ("int8", "int4"):
        is_of_message = column.table in ("pgqueue_message", "pgqueue_history")
        return str(next(IDS if is_of_message else NUMBERS))
    if column.is_unique and column.type == "text" and (column.table, column.name) not in OWN:
        return f"plain {next(NUMBERS)}"
    if (column.table, column.name) in OWN:
        return OWN[column.table, column.name]
    if column.table == "pgqueue_policy" and column.name == "channel":
        return f"plain {next(NUMBERS)}"
    return PLAIN[column.type]()


def insert(table: str, values: dict[str, str | None]) -> Composed:
    types = {each.name: each.type for each in columns()[table]}
    return SQL("INSERT INTO {} ({}) VALUES ({})").format(
        Identifier(table),
        SQL(", ").join(map(Identifier, values)),
        SQL(", ").join(
            SQL("{}::{}").format(Literal(value), Identifier(types[name]))
            for name, value in values.items()
        ),
    )


@dataclass(frozen=True)
class Write:
    """A row with an extreme in one of its columns."""

    column: Column
    extreme: str
    values: dict[str, str | None]

    def __str__(self) -> str:
        return f"{self.column.table}.{self.column.name} = {self.extreme[:40]!r}"


STATES = ("ready", "scheduled", "held", "running", "dead")


def writes(granted: set[tuple[str, str]] | None = None) -> Iterator[Write]:
    """Yield a row for each extreme of each column.

    Args:
        granted: the tables and columns that are written; None: all, and a message in each state.
            Otherwise one that is ready, and one in another state, which extremes take by turns.
    """
    turns = cycle(STATES[1:])
    for table, its in columns().items():
        given = [
            each
            for each in its
            if not each.is_generated and (granted is None or (table, each.name) in granted)
        ]
        for column in given:
            for extreme in EXTREMES[column.type]:
                states: tuple[str, ...] = ("",)
                if table == "pgqueue_message":
                    states = (STATES[0], next(turns)) if granted else STATES
                for state in states:
                    values = {each.name: plain(each) for each in given}
                    if state and "state" in values:
                        values["state"] = state
                    yield Write(column, extreme, {**values, column.name: extreme})


def write(own: psycopg.Connection[Any], each: Write) -> bool:
    """Store a row; return whether the database took it."""
    table = each.column.table
    try:
        with own.transaction():
            if table == "pgqueue_webhook":
                # It is the second half of a subscription.
                values = {
                    column.name: plain(column) for column in columns()["pgqueue_subscription"]
                }
                name = {"name": each.values["subscription_id"]}
                own.execute(insert("pgqueue_subscription", {**values, **name}))
            own.execute(insert(table, each.values))
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(REFUSALS):
            raise AssertionError(str(each)) from error
        return False
    return True


@pytest.fixture
def own(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    """A session of the tables' owner, without Django."""
    parameters = connection.get_connection_params()
    known = {
        name: parameters[name] for name in ("dbname", "user", "host", "port") if name in parameters
    }
    with psycopg.connect(**known, autocommit=True) as opened:
        yield opened


def test_every_type_of_a_column_has_extremes(db: None) -> None:
    types = {each.type for its in columns().values() for each in its}

    assert types <= set(EXTREMES)


def test_a_plain_row_is_stored_in_each_table(own: psycopg.Connection[Any]) -> None:
    """Else an extreme would be refused with its row, and try nothing."""
    for its in columns().values():
        values = {each.name: plain(each) for each in its if not each.is_generated}

        assert write(own, Write(its[0], "", values)), its[0].table


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_what_the_owner_could_store_stops_nothing(own: psycopg.Connection[Any]) -> None:
    make_world()

    stored = [each for each in writes() if write(own, each)]

    assert {each.column.table for each in stored} == set(columns())
    assert_all_goes_on()


@pytest.fixture
def producer(own: psycopg.Connection[Any]) -> Iterator[str]:
    prefix = f"r{uuid4().hex[:12]}_"
    own.execute(script(connection, prefix=prefix))
    yield f"{prefix}producer"
    own.execute("RESET ROLE")
    for part in ("producer", "worker", "operator", "reader"):
        own.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(prefix + part)))


@pytest.mark.timeout(300)
def test_what_a_producer_could_store_stops_nothing(
    own: psycopg.Connection[Any], producer: str
) -> None:
    granted = {
        (each.table, each.name)
        for its in columns().values()
        for each in its
        if own.execute(
            "SELECT has_column_privilege(%s, %s, %s, 'INSERT')", [producer, each.table, each.name]
        ).fetchone()
        == (True,)
    }
    own.execute(SQL("SET ROLE {}").format(Identifier(producer)))

    for each in writes(granted):
        write(own, each)
    call_functions(own)
    own.execute("RESET ROLE")

    assert_all_goes_on()


def call_functions(own: psycopg.Connection[Any]) -> None:
    """Call the functions for producers, with the extremes of each argument."""
    for function in ("pgqueue_enqueue", "pgqueue_publish"):
        arguments = own.execute(
            """SELECT a.name, t.typname
               FROM pg_proc p,
                    unnest(p.proargnames, p.proargtypes::oid[]) AS a (name, type)
               JOIN pg_type t ON t.oid = a.type
               WHERE p.proname = %s""",
            [function],
        ).fetchall()
        first = "tests.jobs.nothing" if function == "pgqueue_enqueue" else "order.paid"
        for name, kind in arguments:
            for extreme in EXTREMES[kind]:
                values = {arguments[0][0]: first, name: extreme}
                try:
                    with own.transaction():
                        own.execute(
                            SQL("SELECT {}({})").format(
                                Identifier(function),
                                SQL(", ").join(
                                    SQL("{} => {}::{}").format(
                                        Identifier(each),
                                        Literal(value),
                                        Identifier(dict(arguments)[each]),
                                    )
                                    for each, value in values.items()
                                ),
                            )
                        )
                except psycopg.Error as error:
                    if not (error.sqlstate or "").startswith(REFUSALS):
                        raise AssertionError(f"{function}({name} => {extreme})") from error


def assert_all_goes_on() -> None:
    """Look at the messages, run a worker, and look at everything else."""
    look_at_everything(but=set(admins()) - {"message"})
    good = jobs.add.using(channel="good").enqueue(1, 2)
    with starting("--threads", "2", "--channel", "good", "--channel", "extreme") as worker:
        eventually(History.objects.filter(id=good.id).exists, within=30)
        eventually(lambda: not claimable().exists(), within=60, what="some are left")
        again = jobs.add.using(channel="good").enqueue(1, 2)
        eventually(History.objects.filter(id=again.id).exists, within=30)
        assert worker.popen.poll() is None
    look_at_everything(but={"message"})


def claimable() -> Any:
    """Messages that a worker could begin: no others of their lane are before them."""
    return Message.objects.filter(
        channel="extreme",
        state="ready",
        task="tests.jobs.nothing",
        ordered=False,
        governed=False,
        expires_at=None,
    )


LISTS = (
    ("pgqueue_list", "--limit", "1000"),
    ("pgqueue_list", "--limit", "1000", "--state", "ended"),
    *(("pgqueue_list", "--limit", "1000", "--state", state) for state in STATES),
    ("pgqueue_stats",),
    ("pgqueue_health",),
    ("pgqueue_channel", "list"),
    ("pgqueue_schedule", "list"),
    ("pgqueue_subscription", "list"),
    ("pgqueue_group", "list"),
    ("pgqueue_flows",),
)


def look_at_everything(*, but: Collection[str] = ()) -> None:
    """Ask by commands, pages, metrics and the pipeline; name each that fails.

    Args:
        but: models whose rows are not looked at one by one now.
    """
    # `pgqueue_maintain` waits for a lease where one is over.
    with override_settings(PGQUEUE={**settings.PGQUEUE, "LEASE": 1}):
        failed = failing(commands(but), lambda words: call(*words))
    failed += failing(pages(but), ask())
    failed += failing([""], lambda accept: of_the_queue("default", accept=accept))
    if programs.have("pyarrow"):
        failed += failing(*as_an_export())
    health = call("pgqueue_health", "--format", "json").out
    failed += [line for line in health.splitlines() if "the query failed" in line]

    assert not failed, "\n".join(failed)


def as_an_export() -> tuple[Iterable[str], Callable[[str], None]]:
    """Return the tables of the pipeline, and a function that reads one as an export does."""
    from pgqueue.arrow.options import read_options
    from pgqueue.arrow.planning import plan
    from pgqueue.arrow.reading import batches
    from pgqueue.arrow.tables import TABLES

    def read(table: str) -> None:
        options = read_options({"url": conninfo("default"), "table": table})
        for part in plan(options):
            for each in batches(options, part):
                each.to_pylist()

    return TABLES, read


def failing(each: Iterable[T], look: Callable[[T], Any]) -> list[str]:
    """Return the looks that failed, with their errors."""
    failed = []
    for one in each:
        try:
            look(one)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            failed.append(f"{one}: {error!r:.200} in {where.filename}:{where.lineno}")
    return failed


def commands(but: Collection[str]) -> Iterator[list[str]]:
    for words in LISTS:
        yield from ([*words, "--format", form] for form in ("text", "json"))
    ready = Message.objects.filter(state="ready")
    for name, rows in (("message", ready), ("history", History.objects.all())):
        for id in [] if name in but else rows.values_list("pk", flat=True):
            yield ["pgqueue_show", str(id), "--format", "json" if id % 4 else "text"]
    yield ["pgqueue_maintain"]


def pages(but: Collection[str]) -> Iterator[str]:
    """Yield the list of each model, and the page of each row."""
    for name, its in admins().items():
        yield f"{ROOT}{name}/"
        if name in but:
            continue
        rows = its.model._base_manager.order_by("pk")
        if name == "message":
            rows = rows.filter(state="ready")
        for key in rows.values_list("pk", flat=True):
            yield f"{ROOT}{name}/{quote(str(key))}/change/"


def ask() -> Callable[[str], None]:
    client = Client()
    user, _ = User.objects.get_or_create(username="u", is_staff=True, is_superuser=True)
    client.force_login(user)

    def ask(page: str) -> None:
        assert client.get(page, follow=True).status_code in (200, 403, 404)

    return ask
