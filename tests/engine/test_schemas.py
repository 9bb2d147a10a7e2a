"""Two queues in one database, each in a schema of its own by search_path, never meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.db.migrations.executor import MigrationExecutor

from pgqueue.engine import cancel, claim, duty, lookup, partitions, promote, settle
from pgqueue.models import History, Message
from tests.factories import (
    Connection,
    Listening,
    done,
    enqueue,
    make_due,
    one,
    register,
    run,
    schedule,
)
from tests.factories import claim as take

pytestmark = pytest.mark.slow

MINUTE = timedelta(minutes=1)


def add_alias(alias: str, search_path: str) -> None:
    settings = connections["default"].settings_dict
    options = {**settings["OPTIONS"], "options": f"-c search_path={search_path}"}
    connections.databases[alias] = {**settings, "OPTIONS": options}


def remove_alias(alias: str) -> None:
    connections[alias].close()
    del connections[alias]
    del connections.databases[alias]


def migrate(alias: str, *to: str | None) -> None:
    # Only our own tables, and none of the signals by which Django's apps would follow.
    executor = MigrationExecutor(connections[alias])
    targets = [("pgqueue", each) for each in to]
    executor.migrate(targets or executor.loader.graph.leaf_nodes("pgqueue"))


def tables(connection: Connection, schema: str) -> set[str]:
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) "
        "AND relkind IN ('r', 'p', 'S')",
        [schema],
    )
    return {name for (name,) in rows}


@pytest.fixture
def schemas(connection: Connection) -> Iterator[None]:
    """Two schemas with a queue each, by the aliases `north` and `south`."""
    connection.execute("DROP SCHEMA IF EXISTS north, south CASCADE; CREATE SCHEMA north; "
                       "CREATE SCHEMA south")  # fmt: skip
    for alias in ("north", "south"):
        add_alias(alias, alias)
        migrate(alias)
    yield
    for alias in ("north", "south"):
        remove_alias(alias)
    connection.execute("DROP SCHEMA north, south CASCADE")


@pytest.fixture
def north(schemas: None, connect: Callable[..., Connection]) -> Connection:
    return connect("north")


@pytest.fixture
def south(schemas: None, connect: Callable[..., Connection]) -> Connection:
    return connect("south")


def test_each_has_its_own_messages_with_ids_of_its_own(
    connection: Connection, north: Connection, south: Connection
) -> None:
    in_north, in_south = enqueue(north, 3), enqueue(south, 2)

    assert (in_north, in_south) == ([1, 2, 3], [1, 2])
    assert claim.channels(connection, excluded=[]) == []
    assert [each.id for each in take(south)] == in_south
    assert cancel.cancel(north, [3]).ended == {3}
    assert lookup.find(south, 3) is None
    assert Message.objects.using("north").count() == Message.objects.using("south").count() == 2
    assert not Message.objects.exists()


def test_each_hears_its_own_notifications(
    connection: Connection, north: Connection, south: Connection, connect: Callable[..., Connection]
) -> None:
    for each in (connection, north, south):
        register(each, notify_for=MINUTE)
    listening = [Listening(connect(alias)) for alias in ("default", "north", "south")]

    enqueue(north)

    assert [each.heard() for each in listening] == [[], ["default"], []]


def test_each_does_its_own_duties(
    connection: Connection, north: Connection, south: Connection
) -> None:
    for each in (connection, north, south):
        duty.due(each, ["promote"])
        make_due(each, schedule(each, 2))

    with north.transaction():
        assert duty.take(north, "promote", early=False)
        assert duty.take(south, "promote", early=False)
        assert promote.promote(north) == 2

    assert promote.promote(south) == promote.promote(connection) == 2


def test_each_has_its_own_history_and_its_own_days(north: Connection, south: Connection) -> None:
    in_north, in_south = run(north), run(south)
    today = f"pgqueue_history_{datetime.now(UTC):%Y%m%d}"
    north.execute(f"DROP TABLE {today}")
    settle.complete(south, [done(each) for each in in_south])

    with transaction.atomic("north"):
        connections["north"].ensure_connection()
        settled = settle.complete(
            connections["north"].connection, [done(each) for each in in_north]
        )

    assert settled == {in_north[0].id}
    assert today in tables(north, "north") & tables(north, "south")
    assert History.objects.using("north").count() == History.objects.using("south").count() == 1
    assert not History.objects.exists()


def test_days_are_made_in_the_schema_of_their_history(
    connection: Connection,
    north: Connection,
    south: Connection,
    connect: Callable[..., Connection],
) -> None:
    # Another schema comes first in both search_paths, as "$user" does in front of public.
    connection.execute("DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first")
    for alias in ("north", "south"):
        add_alias(f"first_{alias}", f"first,{alias}")
    try:
        workers = [connect("first_north"), connect("first_south")]
        claims = [run(each) for each in workers]
        today = f"pgqueue_history_{datetime.now(UTC):%Y%m%d}"
        connection.execute(f"DROP TABLE north.{today}, south.{today}")

        for worker, held in zip(workers, claims, strict=True):
            settle.complete(worker, [done(each) for each in held])

        assert tables(connection, "first") == set()
        assert today in tables(connection, "north") & tables(connection, "south")
    finally:
        for alias in ("north", "south"):
            remove_alias(f"first_{alias}")
        connection.execute("DROP SCHEMA first CASCADE")


def test_functions_are_mended_in_the_schema_of_their_tables(
    connection: Connection, schemas: None
) -> None:
    migrate("north", "0018_truncation")
    connection.execute("DROP SCHEMA IF EXISTS first CASCADE; CREATE SCHEMA first")
    add_alias("first_north", "first,north")
    try:
        migrate("first_north")

        rows = connection.execute(
            "SELECT pronamespace::regnamespace::text, prosrc ~ 'waiting' FROM pg_proc "
            "WHERE proname = 'pgqueue_store_once_v1' "
            "AND pronamespace IN ('first'::regnamespace, 'north'::regnamespace)"
        )
        assert rows.fetchall() == [("north", True)]
        assert one(
            connection,
            "SELECT count(*) FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a "
            "WHERE pronamespace = 'north'::regnamespace AND prosecdef AND a.grantee = 0",
        ) == (0,)
    finally:
        remove_alias("first_north")
        connection.execute("DROP SCHEMA first CASCADE")


def test_dedupe_keys_are_stored_also_with_the_tables_of_an_older_step(
    connection: Connection, north: Connection
) -> None:
    migrate("north", "0008_roles")

    stored = one(north, "SELECT pgqueue_enqueue('a', dedupe_key => 'b')")

    assert stored == one(north, "SELECT pgqueue_enqueue('a', dedupe_key => 'b', replaces => true)")


def test_a_migration_back_leaves_nothing(connection: Connection, north: Connection) -> None:
    enqueue(north, 2)
    settle.complete(north, [done(each) for each in take(north)])
    partitions.ensure(north, ahead=timedelta(days=20))

    migrate("north", None)
    left = tables(connection, "north")
    functions = one(
        connection, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'north'::regnamespace"
    )
    migrate("north")

    assert {name for name in left if name.startswith("pgqueue")} == set()
    assert functions == (0,)
    assert "pgqueue_message" in tables(connection, "north")
