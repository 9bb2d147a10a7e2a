from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection as django
from django.db import transaction
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import OperationWriter
from psycopg.sql import SQL, Identifier

from pgqueue import Event, InvalidTracking, RecordedEvent, read
from pgqueue.codec.json_text import from_json, to_json
from pgqueue.database.connections import connect
from pgqueue.events.recorded import FORM
from pgqueue.operations import TrackTable, UntrackTable
from testproject.shop.factories import OrderFactory, ProductFactory
from testproject.shop.models import Order, Product
from tests.eventually import eventually

Connection = psycopg.Connection[Any]
Track = Callable[..., TrackTable]


def forwards(operation: TrackTable, app: str = "shop") -> None:
    """Apply an operation, as a migration does."""
    state = ProjectState.from_apps(apps)
    with django.schema_editor() as editor:
        operation.database_forwards(app, editor, state, state)


def backwards(operation: TrackTable, app: str = "shop") -> None:
    """Reverse an operation."""
    state = ProjectState.from_apps(apps)
    with django.schema_editor() as editor:
        operation.database_backwards(app, editor, state, state)


def execute(statement: str | bytes, *parameters: Any) -> None:
    if isinstance(statement, str):
        statement = statement.replace("THINGS", 'legacy."Things"')
    with django.cursor() as cursor:
        cursor.execute(statement, parameters or None)


def traces() -> list[str]:
    """Return the triggers and functions of tracking that the database has beside the shop's own."""
    with django.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'pgqueue_track_%' "
            "AND tgrelid <> 'shop_stockmovement'::regclass UNION ALL "
            "SELECT proname FROM pg_proc WHERE proname LIKE 'pgqueue_track_%' "
            "AND proname NOT LIKE 'pgqueue_track_shop_stockmovement_%' ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def told(*, after: int = 0) -> list[tuple[str, str]]:
    """Return the topics and keys of all events."""
    return sorted((event.topic, event.key) for event in read(after=after))


def only() -> RecordedEvent:
    (event,) = read()
    return event


@pytest.fixture
def track(transactional_db: None) -> Iterator[Track]:
    """A function that tracks a table as TrackTable does with its options, until the test ends."""
    done: list[TrackTable] = []

    def track(*args: Any, **options: Any) -> TrackTable:
        operation = TrackTable(*args, **options)
        forwards(operation)
        done.append(operation)
        return operation

    yield track
    for each in reversed(done):
        backwards(each)
    assert traces() == []
    Order.objects.all().delete()
    Product.objects.all().delete()


@pytest.fixture
def things(transactional_db: None) -> Iterator[None]:
    """A table `legacy."Things"` that has no model, and one that refers to it."""
    execute(
        'DROP SCHEMA IF EXISTS legacy CASCADE; CREATE SCHEMA legacy; CREATE TABLE legacy."Things" '
        "(id integer PRIMARY KEY, name text, size numeric, secret text)"
    )
    yield
    execute("DROP SCHEMA legacy CASCADE")


THINGS = "legacy.Things"
INSERT = "INSERT INTO legacy.\"Things\" VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y'), (3, 'c', 3, 'z')"


def body() -> tuple[str, str]:
    """Return the function that the triggers of things call, and its text."""
    with django.cursor() as cursor:
        cursor.execute(
            "SELECT oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc "
            "WHERE starts_with(proname, 'pgqueue_track_Things_')"
        )
        (found,) = cursor.fetchall()
        return found


def restore() -> None:
    """Have a function belong to a table of another number, as after a dump and a restore."""
    execute(re.sub(r"TG_RELID = \d+", "TG_RELID = 1", body()[1]))


class TestAModel:
    def test_publishes_what_is_inserted_updated_and_deleted(self, track: Track) -> None:
        track("shop.Order")

        order = OrderFactory(name="Ada", quantity=1)
        key = str(order.pk)
        order.quantity = 2
        order.save()
        order.delete()

        made, changed, gone = read()
        assert [made.topic, changed.topic, gone.topic] == [
            "shop_order.insert",
            "shop_order.update",
            "shop_order.delete",
        ]
        assert {made.key, changed.key, gone.key} == {key}
        assert (made.payload["new"]["name"], made.payload["old"]) == ("Ada", None)
        assert made.payload["diff"] is None
        assert changed.payload["diff"] == {"quantity": 2}
        assert changed.payload["old"] == made.payload["new"]
        assert changed.payload["new"] == {**made.payload["new"], "quantity": 2}
        assert gone.payload == {"new": None, "old": changed.payload["new"], "diff": None}
        assert made.metadata == {}

    def test_of_the_migrations_own_app_needs_no_app(self, track: Track) -> None:
        track("order", update=False)

        OrderFactory()

        assert only().topic == "shop_order.insert"

    def test_publishes_nothing_that_is_rolled_back(self, track: Track) -> None:
        track("shop.Product")

        with transaction.atomic():
            ProductFactory(sku="a")
            transaction.set_rollback(True)
        ProductFactory(sku="b")

        assert only().payload["new"]["sku"] == "b"

    def test_publishes_no_update_that_changes_nothing(self, track: Track) -> None:
        product = ProductFactory(price="2.50")
        track("shop.Product")

        product.save()
        Product.objects.update(price="2.5")

        assert read() == []

    def test_publishes_only_what_is_asked_for(self, track: Track) -> None:
        track("shop.Product", insert=False, delete=False)

        product = ProductFactory(stock=1)
        Product.objects.update(stock=2)
        product.delete()

        assert only().topic == "shop_product.update"

    def test_publishes_bulk_changes_row_by_row(self, track: Track) -> None:
        track("shop.Product")

        made = Product.objects.bulk_create(ProductFactory.build_batch(20))
        Product.objects.filter(pk__in=[each.pk for each in made[:5]]).update(stock=-1)
        Product.objects.bulk_create(
            made[:1],
            update_conflicts=True,
            unique_fields=["sku"],
            update_fields=["name"],
        )
        Product.objects.all().delete()

        topics = [event.topic for event in read()]
        assert topics.count("shop_product.insert") == topics.count("shop_product.delete") == 20
        assert topics.count("shop_product.update") == 5

    def test_pairs_each_row_with_what_it_was(self, track: Track) -> None:
        products = ProductFactory.create_batch(50, stock=-1)
        track("shop.Product")

        execute("UPDATE shop_product SET stock = id WHERE id <> %s", products[0].pk)

        events = read()
        assert len(events) == 49
        for event in events:
            assert event.payload["old"]["id"] == event.payload["new"]["id"] == int(event.key)
            assert event.payload["diff"] == {"stock": int(event.key)}

    def test_takes_fields_for_columns(self, track: Track) -> None:
        track("shop.Order", columns=["product", "quantity"], key="product")

        order = OrderFactory(quantity=3)
        Order.objects.update(name="other")

        assert only().payload["new"] == {"product_id": order.product_id, "quantity": 3}
        assert only().key == str(order.product_id)


@pytest.mark.usefixtures("things")
class TestATable:
    def test_has_its_name_as_its_topic(self, track: Track) -> None:
        track(table=THINGS)

        execute(INSERT)

        assert told() == [("legacy.Things.insert", key) for key in "123"]

    def test_may_have_any_name(self, track: Track) -> None:
        execute(
            'CREATE TABLE legacy."a. b%s\'""{}" (id int PRIMARY KEY, "new" text, "the %% id" int)'
        )
        track(table='legacy."a. b%s\'""{}"')

        execute('INSERT INTO legacy."a. b%s\'""{}" VALUES (1, 2, 3)')

        assert only().topic == "legacy.a__b%s'\"{}.insert"
        assert only().payload["new"] == {"id": 1, "new": "2", "the %% id": 3}

    def test_publishes_what_is_copied(self, track: Track, connection: Connection) -> None:
        track(table=THINGS)

        with connection.cursor() as cursor, cursor.copy('COPY legacy."Things" FROM STDIN') as copy:
            for id in range(1000):
                copy.write_row([id, "n", 1, None])

        assert len(read(topics="legacy.Things.insert", limit=2000)) == 1000

    def test_publishes_what_a_cascade_deletes(self, track: Track) -> None:
        execute(INSERT)
        execute(
            "CREATE TABLE legacy.parts (id int PRIMARY KEY, thing int REFERENCES "
            'legacy."Things" ON DELETE CASCADE)'
        )
        execute("INSERT INTO legacy.parts VALUES (10, 1), (11, 1), (12, 2)")
        track(table="legacy.parts")

        execute('DELETE FROM legacy."Things" WHERE id < 3')

        assert told() == [("legacy.parts.delete", key) for key in ("10", "11", "12")]

    def test_that_is_partitioned_tells_of_rows_that_move(self, track: Track) -> None:
        execute(
            "CREATE TABLE legacy.parted (id int, kind text, n int, PRIMARY KEY (id, kind)) "
            "PARTITION BY LIST (kind); CREATE TABLE legacy.parted_a PARTITION OF legacy.parted "
            "FOR VALUES IN ('a'); CREATE TABLE legacy.parted_b PARTITION OF legacy.parted DEFAULT"
        )
        track(table="legacy.parted")

        execute("INSERT INTO legacy.parted VALUES (1, 'a', 0), (2, 'b', 0)")
        execute("UPDATE legacy.parted SET n = 1 WHERE id = 2")
        execute("UPDATE legacy.parted SET kind = 'b' WHERE id = 1")

        assert told() == [
            ("legacy.parted.delete", '["1", "a"]'),
            ("legacy.parted.insert", '["1", "a"]'),
            ("legacy.parted.insert", '["1", "b"]'),
            ("legacy.parted.insert", '["2", "b"]'),
            ("legacy.parted.update", '["2", "b"]'),
        ]

    def test_that_is_a_partition_tells_of_what_is_written_to_it(self, track: Track) -> None:
        execute(
            "CREATE TABLE legacy.parted (id int PRIMARY KEY) PARTITION BY RANGE (id); "
            "CREATE TABLE legacy.part PARTITION OF legacy.parted FOR VALUES FROM (0) TO (9)"
        )
        track(table="legacy.parted")
        execute("INSERT INTO legacy.part VALUES (1)")
        before = read()
        track(table="legacy.part", topic="legacy.parted")

        execute("INSERT INTO legacy.part VALUES (2)")
        execute("INSERT INTO legacy.parted VALUES (3)")

        assert before == []
        assert told() == [("legacy.parted.insert", "2"), ("legacy.parted.insert", "3")]

    def test_may_have_generated_columns(self, track: Track) -> None:
        kinds = ["STORED", *(["VIRTUAL"] if django.pg_version >= 180000 else [])]
        columns = (f"{kind} int GENERATED ALWAYS AS (n + 1) {kind}" for kind in kinds)
        execute(f"CREATE TABLE legacy.made (id int PRIMARY KEY, n int, {', '.join(columns)})")
        track(table="legacy.made")

        execute("INSERT INTO legacy.made VALUES (1, 1)")
        execute("UPDATE legacy.made SET n = 2")

        made, changed = read()
        # PostgreSQL computes no virtual ones for triggers.
        assert made.payload["new"] == {"id": 1, "n": 1, "stored": 2}
        assert changed.payload["diff"] == {"n": 2, "stored": 3}

    def test_may_have_keys_that_are_too_long_for_one(self, track: Track) -> None:
        execute("CREATE TABLE legacy.long (name text PRIMARY KEY)")
        track(table="legacy.long")

        execute("INSERT INTO legacy.long VALUES (repeat('x', 1000)), (repeat('ü', 501))")

        assert sorted(event.key for event in read()) == ["x" * 1000, "ü" * 250]

    def test_whose_keys_change_tells_which_keys_went_and_came(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS, insert=False, delete=False)

        execute('UPDATE legacy."Things" SET id = id + 10 WHERE id = 3')
        execute("UPDATE legacy.\"Things\" SET id = 4 - id, name = 'q' WHERE id < 3")

        assert told() == [
            ("legacy.Things.delete", "1"),
            ("legacy.Things.delete", "3"),
            ("legacy.Things.insert", "13"),
            ("legacy.Things.insert", "3"),
            ("legacy.Things.update", "2"),
        ]

    def test_may_change_its_columns_later(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)
        execute('UPDATE legacy."Things" SET size = 9 WHERE id = 1')

        execute(
            "ALTER TABLE legacy.\"Things\" DROP COLUMN name, ADD COLUMN colour text DEFAULT 'red'; "
            'ALTER TABLE legacy."Things" RENAME COLUMN size TO volume; '
            'ALTER TABLE legacy."Things" RENAME COLUMN id TO number'
        )
        execute("UPDATE legacy.\"Things\" SET volume = 8, colour = 'blue' WHERE number = 1")
        execute("INSERT INTO legacy.\"Things\" VALUES (4, 5, 's', 'green')")
        execute('DELETE FROM legacy."Things" WHERE number = 4')

        _, changed, made, gone = read()
        assert (changed.key, changed.payload["diff"]) == ("1", {"colour": "blue", "volume": 8})
        assert made.payload["new"] == gone.payload["old"]
        assert made.payload["new"] == {"number": 4, "volume": 5, "secret": "s", "colour": "green"}

    def test_may_get_another_name_and_key_later(self, track: Track) -> None:
        execute(INSERT)
        operation = track(table=THINGS)

        execute(
            'ALTER TABLE legacy."Things" RENAME TO other; ALTER TABLE legacy.other '
            'DROP CONSTRAINT "Things_pkey", ADD PRIMARY KEY (name)'
        )
        execute("UPDATE legacy.other SET size = 5 WHERE id = 1")
        execute('CREATE TABLE legacy."Things" (id int PRIMARY KEY)')
        forwards(operation)
        execute('INSERT INTO legacy."Things" VALUES (9)')
        backwards(operation)
        execute('ALTER TABLE legacy."Things" RENAME TO gone')
        execute('ALTER TABLE legacy.other RENAME TO "Things"')

        assert told() == [("legacy.Things.insert", "9"), ("legacy.Things.update", "a")]

    def test_publishes_some_columns(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS, columns=["name", "size"])

        execute("UPDATE legacy.\"Things\" SET secret = 'n'")
        execute('UPDATE legacy."Things" SET size = 7 WHERE id = 1')
        execute('ALTER TABLE legacy."Things" DROP COLUMN name')
        execute('DELETE FROM legacy."Things" WHERE id = 1')

        changed, gone = read()
        assert changed.payload["new"] == {"name": "a", "size": 7}
        assert (gone.key, gone.payload["old"]) == ("1", {"size": 7})

    def test_leaves_out_columns(self, track: Track) -> None:
        track(table=THINGS, exclude=["secret", "size"])

        execute(INSERT)
        execute("UPDATE legacy.\"Things\" SET secret = 'n'")

        assert [event.payload["new"] for event in read()] == [
            {"id": id, "name": name} for id, name in ((1, "a"), (2, "b"), (3, "c"))
        ]

    @pytest.mark.parametrize("is_restored", [False, True], ids=["", "after a restore"])
    def test_leaves_out_an_excluded_column_under_its_new_name_too(
        self, track: Track, is_restored: bool
    ) -> None:
        track(table=THINGS, exclude=["secret"])
        if is_restored:
            restore()

        execute('ALTER TABLE legacy."Things" RENAME secret TO hidden')
        execute(INSERT)
        execute("UPDATE legacy.\"Things\" SET hidden = 'n'")

        assert [event.payload["new"].keys() for event in read()] == [{"id", "name", "size"}] * 3

    def test_leaves_out_an_excluded_column_whose_name_another_one_has_taken(
        self, track: Track
    ) -> None:
        track(table=THINGS, exclude=["secret"])

        execute('ALTER TABLE legacy."Things" RENAME secret TO hidden')
        execute('ALTER TABLE legacy."Things" RENAME name TO secret')
        execute('ALTER TABLE legacy."Things" ADD more text DEFAULT 1')
        execute(INSERT)

        assert [event.payload["new"].keys() for event in read()] == [{"id", "size", "more"}] * 3

    def test_leaves_out_a_column_that_has_the_name_of_an_excluded_one_that_was_dropped(
        self, track: Track
    ) -> None:
        track(table=THINGS, exclude=["secret"])

        execute(
            'ALTER TABLE legacy."Things" DROP secret; ALTER TABLE legacy."Things" ADD secret text'
        )
        execute(INSERT)

        assert [event.payload["new"].keys() for event in read()] == [{"id", "name", "size"}] * 3

    def test_publishes_a_column_that_is_added_as_long_as_each_excluded_one_is_there(
        self, track: Track
    ) -> None:
        track(table=THINGS, exclude=["secret"])
        restore()
        execute('ALTER TABLE legacy."Things" ADD more text DEFAULT 1')

        execute(INSERT)
        execute('ALTER TABLE legacy."Things" DROP secret')
        execute('UPDATE legacy."Things" SET size = 9 WHERE id = 1')

        *_, last, changed = read()
        assert last.payload["new"].keys() == {"id", "name", "size", "more"}
        assert changed.payload["new"].keys() == {"id", "name", "size"}

    def test_publishes_after_a_restore_what_has_the_number_of_an_excluded_one(
        self, track: Track
    ) -> None:
        track(table=THINGS, exclude=["secret"])
        restore()
        execute(
            'ALTER TABLE legacy."Things" RENAME secret TO other;'
            'ALTER TABLE legacy."Things" RENAME name TO secret;'
            'ALTER TABLE legacy."Things" RENAME other TO name'
        )

        execute(INSERT)

        assert [event.payload["new"].keys() for event in read()] == [{"id", "name", "size"}] * 3

    def test_publishes_no_column_that_took_the_name_of_a_chosen_one(self, track: Track) -> None:
        track(table=THINGS, columns=["id", "name"])

        execute('ALTER TABLE legacy."Things" DROP name')
        execute('ALTER TABLE legacy."Things" RENAME secret TO name')
        execute("INSERT INTO legacy.\"Things\" VALUES (1, 1, 'x')")

        assert only().payload["new"] == {"id": 1}

    def test_publishes_the_chosen_columns_after_a_restore_too(self, track: Track) -> None:
        track(table=THINGS, columns=["id", "name"])
        restore()

        execute(INSERT)

        assert [event.payload["new"].keys() for event in read()] == [{"id", "name"}] * 3

    def test_publishes_rows_on_a_condition(self, track: Track) -> None:
        track(table=THINGS, only_if="new.size % 2 = 1 AND old.size IS DISTINCT FROM 5 -- odd")

        execute(INSERT)
        execute('UPDATE legacy."Things" SET size = size + 1')
        execute('UPDATE legacy."Things" SET size = 5')
        execute('UPDATE legacy."Things" SET size = 7')
        execute('DELETE FROM legacy."Things"')

        assert told() == [
            ("legacy.Things.insert", "1"),
            ("legacy.Things.insert", "3"),
            ("legacy.Things.update", "1"),
            ("legacy.Things.update", "2"),
            ("legacy.Things.update", "2"),
            ("legacy.Things.update", "3"),
        ]

    def test_publishes_what_a_function_makes_of_a_row(self, track: Track) -> None:
        execute(
            'CREATE FUNCTION legacy.shown(r legacy."Things") RETURNS jsonb LANGUAGE sql AS $$ '
            "SELECT CASE WHEN r.name <> 'b' THEN jsonb_build_object('called', r.name) END $$; "
            'ALTER TABLE legacy."Things" ADD COLUMN more int; '
            'ALTER TABLE legacy."Things" DROP COLUMN more'
        )
        track(table=THINGS, serializer="legacy.shown")

        execute(INSERT)
        execute('UPDATE legacy."Things" SET size = 0')
        execute("UPDATE legacy.\"Things\" SET name = name || 'b' WHERE id <> 3")
        execute('DELETE FROM legacy."Things" WHERE id > 1')

        events = {(event.topic.split(".")[-1], event.key): event.payload for event in read()}
        assert events == {
            ("insert", "1"): {"new": {"called": "a"}, "old": None, "diff": None},
            ("insert", "3"): {"new": {"called": "c"}, "old": None, "diff": None},
            ("update", "1"): {
                "new": {"called": "ab"},
                "old": {"called": "a"},
                "diff": {"called": "ab"},
            },
            ("update", "2"): {"new": {"called": "bb"}, "old": None, "diff": {"called": "bb"}},
            ("delete", "2"): {"new": None, "old": {"called": "bb"}, "diff": None},
            ("delete", "3"): {"new": None, "old": {"called": "c"}, "diff": None},
        }

    def test_publishes_a_truncate_if_asked(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS, truncate=True, topic="things")

        execute('TRUNCATE legacy."Things"')

        assert (only().topic, only().key, only().payload) == ("things.truncate", "", None)

    def test_publishes_no_truncate_otherwise(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)

        execute('TRUNCATE legacy."Things"')

        assert read() == []

    def test_without_a_primary_key_publishes_what_comes_and_goes(self, track: Track) -> None:
        execute("CREATE TABLE legacy.bare (n int)")
        with pytest.raises(InvalidTracking, match="no primary key"):
            track(table="legacy.bare")
        track(table="legacy.bare", update=False)

        execute("INSERT INTO legacy.bare VALUES (1)")
        execute("UPDATE legacy.bare SET n = 2")
        execute("DELETE FROM legacy.bare")

        assert told() == [("legacy.bare.delete", ""), ("legacy.bare.insert", "")]

    def test_is_written_by_those_who_may_not_publish(
        self, track: Track, connection: Connection
    ) -> None:
        track(table=THINGS)
        role = Identifier(f"clerk_{connection.info.backend_pid}")
        connection.execute(SQL("CREATE ROLE {}").format(role))
        connection.execute(SQL("GRANT USAGE ON SCHEMA legacy TO {}").format(role))
        connection.execute(SQL('GRANT INSERT ON legacy."Things" TO {}').format(role))
        try:
            with connection.transaction():
                connection.execute(SQL("SET LOCAL ROLE {}").format(role))
                connection.execute("SET LOCAL search_path = legacy")
                # What stands before our tables in a search by name is not theirs to choose.
                connection.execute(
                    "CREATE TEMP TABLE pgqueue_event_inbox (topic text, key text, payload jsonb, "
                    "metadata jsonb) ON COMMIT DROP"
                )
                connection.execute('INSERT INTO "Things" VALUES (1)')
            assert told() == [("legacy.Things.insert", "1")]

            (function,) = connection.execute(
                "SELECT oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'pgqueue_track_%' "
                "AND proname NOT LIKE 'pgqueue_track_shop_stockmovement_%'"
            ).fetchone() or [""]
            allowed = connection.execute(
                "SELECT has_function_privilege(%s::name, %s, 'EXECUTE')",
                [role.as_string().strip('"'), function],
            ).fetchone()
            assert allowed == (False,)
        finally:
            connection.execute(SQL("DROP OWNED BY {}").format(role))
            connection.execute(SQL("DROP ROLE {}").format(role))

    def test_wakes_idle_readers_once(self, track: Track, connection: Connection) -> None:
        track(table=THINGS)
        connection.execute(
            "INSERT INTO pgqueue_reader (id, host, pid, last_seen, notify_until) "
            "VALUES (gen_random_uuid(), '', 1, now(), now() + interval '1 min')"
        )
        (channel,) = connection.execute(
            "SELECT pgqueue_notifications_v1() || '_events'"
        ).fetchone() or [""]
        connection.execute(SQL("LISTEN {}").format(Identifier(channel)))

        execute(INSERT)

        assert len(list(connection.notifies(timeout=5, stop_after=1))) == 1
        assert list(connection.notifies(timeout=0)) == []
        connection.execute("UNLISTEN *")


@pytest.mark.usefixtures("things")
class TestTheOperation:
    def test_leaves_nothing_when_it_is_reversed(self) -> None:
        operation = TrackTable(table=THINGS, truncate=True)
        forwards(operation)
        assert len(traces()) == 5

        backwards(operation)

        assert traces() == []
        execute(INSERT)
        assert read() == []

    def test_replaces_how_a_table_is_tracked_and_brings_it_back(self, track: Track) -> None:
        track(table=THINGS, update=False, delete=False, columns=["name"], topic="first")
        second = TrackTable(table=THINGS, topic="second", insert=False)
        forwards(second)
        execute(INSERT)
        execute('DELETE FROM legacy."Things" WHERE id = 1')

        backwards(second)
        execute("INSERT INTO legacy.\"Things\" VALUES (4, 'd')")

        gone, made = read()
        assert (gone.topic, made.topic, made.payload["new"]) == (
            "second.delete",
            "first.insert",
            {"name": "d"},
        )

    def test_can_be_ended_later(self, track: Track) -> None:
        operation = track(table=THINGS)
        end = UntrackTable(table=THINGS)

        forwards(end)
        gone = traces()
        backwards(end)
        execute(INSERT)

        assert gone == []
        assert len(read()) == 3
        assert operation.reversible

    def test_is_written_into_a_migration_as_it_was_given(self) -> None:
        operation = TrackTable("shop.Order", delete=False, only_if="new.id > 1", columns=["id"])

        code, imports = OperationWriter(operation, indentation=0).serialize()

        assert imports == {"import pgqueue.operations"}
        again = eval(code.rstrip(","), {"pgqueue": __import__("pgqueue.operations")})  # noqa: S307
        assert (again.model, again.definition) == (operation.model, operation.definition)
        assert operation.migration_name_fragment == "track_shop_order"
        assert "shop.Order" in operation.describe()

    def test_shows_its_sql(self) -> None:
        operation = TrackTable(table=THINGS)
        state = ProjectState.from_apps(apps)

        with django.schema_editor(collect_sql=True) as editor:
            operation.database_forwards("shop", editor, state, state)
            TrackTable(table="legacy.unmade").database_forwards("shop", editor, state, state)

        sql = "\n".join(editor.collected_sql)
        assert "CREATE TRIGGER" in sql
        assert (
            '-- Not known before the tables are there: there is no table "legacy"."unmade"' in sql
        )
        assert traces() == []


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "a model or a table"),
            ({"model": "shop.Order", "table": "x"}, "a model or a table"),
            ({"model": "a.b.c"}, "model='a.b.c'"),
            ({"model": 3}, "model=3"),
            ({"table": "a.b.c"}, "table='a.b.c'"),
            ({"table": ""}, "table=''"),
            ({"insert": 1}, "insert=1"),
            ({"insert": False, "update": False, "delete": False}, "UntrackTable"),
            ({"columns": "name"}, "columns='name'"),
            ({"columns": []}, "columns="),
            ({"columns": ["a"], "exclude": ["b"]}, "exclude each other"),
            ({"exclude": [""]}, "exclude="),
            ({"only_if": " "}, "only_if=' '"),
            ({"serializer": "a.b.c"}, "serializer='a.b.c'"),
            ({"topic": "a..b"}, "topic='a..b'"),
            ({"topic": "a" * 195}, "topic="),
            ({"key": ""}, "key=''"),
        ],
    )
    def test_are_named_when_the_operation_is_made(self, options: Any, said: str) -> None:
        named = options if {"model", "table"} & set(options) else {"table": "x", **options}

        with pytest.raises(InvalidTracking, match=said):
            TrackTable(**(named if options else {}))

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"model": "shop.Ordr"}, "Did you mean 'shop.Order'"),
            ({"table": "shop_ordr"}, 'no table "shop_ordr"'),
            ({"table": "pg_stat_activity"}, "is no table"),
            ({"model": "shop.Order", "columns": ["nam"]}, "columns: .* Did you mean 'name'"),
            ({"model": "shop.Order", "exclude": ["nam"]}, "exclude: .* Did you mean 'name'"),
            ({"model": "shop.Order", "key": "nam"}, "key: .* Did you mean 'name'"),
            ({"model": "shop.Order", "only_if": "new.nam = 'x'"}, "only_if .*nam"),
            ({"model": "shop.Order", "only_if": "name = 'x'"}, "ambiguous"),
            ({"model": "shop.Order", "serializer": "nothing"}, "nothing"),
        ],
    )
    def test_are_named_when_it_is_applied(self, options: Any, said: str) -> None:
        operation = TrackTable(**options)

        with pytest.raises(InvalidTracking, match=said):
            forwards(operation)

        assert traces() == []


def state(topic: str) -> dict[str, Any]:
    """Return the rows of a copy that is kept by key: the last event of each key has them."""
    rows = {event.key: event.payload["new"] for event in read(topics=f"{topic}.*", limit=10_000)}
    return {key: row for key, row in rows.items() if row is not None}


def rows_of(table: str) -> dict[str, Any]:
    """Return the rows of a table by their ids."""
    with django.cursor() as cursor:
        cursor.execute(
            SQL("SELECT id::text, to_jsonb(t) FROM {} t").format(Identifier(*table.split(".")))
        )
        return {key: json.loads(row) for key, row in cursor.fetchall()}


def fire(table: str, event: str, statement: str, *, name: str = "b_own") -> None:
    """Have a trigger of the user's run a statement."""
    execute(
        f"CREATE FUNCTION legacy.{name}() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
        f"{statement}; RETURN {'NEW' if 'INSERT' in event or 'UPDATE' in event else 'OLD'}; "
        f"END $f$; CREATE TRIGGER {name} {event} ON {table} FOR EACH ROW "
        f"EXECUTE FUNCTION legacy.{name}()"
    )


@pytest.mark.usefixtures("things")
class TestATriggerOfTheUsers:
    """A row that changes within a statement: the events of its key come in the order of changes."""

    def check(self, statement: str, topics: list[str], *, key: str = "1") -> None:
        execute(statement)

        events = [event for event in read() if event.key == key]
        assert [event.topic.rpartition(".")[2] for event in events] == topics
        assert state("legacy.Things").get(key) == rows_of(THINGS).get(key)
        for before, after in pairwise(events):
            assert before.payload["new"] == after.payload["old"]

    def test_that_updates_what_is_inserted(self, track: Track) -> None:
        track(table=THINGS)
        fire("THINGS", "AFTER INSERT", "UPDATE THINGS SET name = 'own' WHERE id = NEW.id")

        self.check(INSERT, ["insert", "update"])

    def test_that_updates_what_is_updated_back_and_forth(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)
        fire(
            "THINGS",
            "AFTER UPDATE OF size",
            "UPDATE THINGS SET name = 'x' WHERE id = NEW.id; "
            "UPDATE THINGS SET name = NEW.name WHERE id = NEW.id",
        )

        self.check("UPDATE THINGS SET size = 9", ["update", "update", "update"])

    def test_that_takes_back_what_is_updated(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)
        fire(
            "THINGS",
            "AFTER UPDATE",
            "IF NEW.size > 8 THEN UPDATE THINGS SET size = OLD.size WHERE id = NEW.id; END IF",
        )

        self.check("UPDATE THINGS SET size = 9", ["update", "update"])

    def test_that_inserts_what_is_deleted(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)
        fire("THINGS", "AFTER DELETE", "INSERT INTO THINGS VALUES (OLD.id, 'again')")

        self.check("DELETE FROM THINGS WHERE id < 3", ["delete", "insert"])

    def test_that_deletes_what_is_inserted(self, track: Track) -> None:
        track(table=THINGS)
        fire("THINGS", "AFTER INSERT", "DELETE FROM THINGS WHERE id = NEW.id AND id = 1")

        self.check(INSERT, ["insert", "delete"])

    def test_that_deletes_what_is_inserted_in_its_place(self, track: Track) -> None:
        execute(INSERT)
        track(table=THINGS)
        fire("THINGS", "BEFORE INSERT", "DELETE FROM THINGS WHERE id = NEW.id")

        self.check(INSERT, ["delete", "insert"])

    def test_within_a_trigger(self, track: Track) -> None:
        track(table=THINGS)
        fire("THINGS", "AFTER INSERT", "UPDATE THINGS SET size = 10 WHERE id = NEW.id")
        fire(
            "THINGS",
            "AFTER UPDATE",
            "IF NEW.size < 13 THEN UPDATE THINGS SET size = NEW.size + 1 WHERE id = NEW.id; END IF",
            name="c_own",
        )

        self.check(INSERT, ["insert", *["update"] * 4])

    def test_of_another_table_leaves_later_statements_alone(self, track: Track) -> None:
        execute(f"CREATE TABLE legacy.others (id int PRIMARY KEY); {INSERT}")
        track(table=THINGS)
        fire("legacy.others", "AFTER INSERT", "UPDATE THINGS SET size = 9 WHERE id = 1")

        with transaction.atomic():
            execute("INSERT INTO legacy.others VALUES (1)")
            execute("UPDATE THINGS SET size = 1 WHERE id = 1")
            execute("INSERT INTO legacy.others VALUES (2)")
            execute("UPDATE THINGS SET size = 1 WHERE id = 1")
            execute("INSERT INTO legacy.others VALUES (3)")

        self.check("UPDATE THINGS SET size = 2 WHERE id = 1", ["update"] * 6)

    def test_for_statements_is_in_order_too(self, track: Track) -> None:
        track(table=THINGS)
        execute(
            "CREATE FUNCTION legacy.own() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
            "UPDATE THINGS SET name = 'own'; RETURN NULL; END $f$; "
            "CREATE TRIGGER a_first AFTER INSERT ON THINGS EXECUTE FUNCTION legacy.own()"
        )

        self.check(INSERT, ["insert", "update"])

    @pytest.mark.parametrize(
        "options",
        [
            {"columns": ["name"]},
            {"exclude": ["secret"], "only_if": "old.id IS NULL OR new.name <> 'q'"},
            {"serializer": "legacy.shown"},
        ],
        ids=str,
    )
    def test_with_options(self, track: Track, options: Any) -> None:
        execute(
            'CREATE FUNCTION legacy.shown(legacy."Things") RETURNS jsonb LANGUAGE sql AS '
            "$$ SELECT jsonb_build_object('name', $1.name) $$"
        )
        track(table=THINGS, **options)
        fire("THINGS", "AFTER INSERT", "UPDATE THINGS SET name = 'own' WHERE id = NEW.id")

        execute(INSERT)

        assert {key: row["name"] for key, row in state("legacy.Things").items()} == dict.fromkeys(
            "123", "own"
        )

    def test_of_several_columns_of_a_key_and_odd_values(self, track: Track) -> None:
        execute(
            "CREATE TABLE legacy.pairs (a uuid, b timestamptz, doc json, n int, PRIMARY KEY (b, a))"
        )
        track(table="legacy.pairs")
        fire("legacy.pairs", "AFTER INSERT", "UPDATE legacy.pairs SET n = n + 1 WHERE a = NEW.a")

        execute(
            "INSERT INTO legacy.pairs SELECT gen_random_uuid(), now(), '\"\\u0000\"', 1 "
            "FROM generate_series(1, 3)"
        )

        assert [event.topic for event in read()] == 3 * ["legacy.pairs.insert"] + 3 * [
            "legacy.pairs.update"
        ]
        assert {row["n"] for row in state("legacy.pairs").values()} == {2}

    def test_moves_no_event_of_another_transaction(
        self, track: Track, connection: Connection
    ) -> None:
        """Keys are not always those of rows: another session may publish of the same key."""
        track(table=THINGS, key="secret")
        fire(
            "THINGS",
            "AFTER INSERT",
            "UPDATE THINGS SET size = 7 WHERE id = NEW.id AND name = 'a'; "
            "PERFORM pg_advisory_xact_lock(815)",
        )
        connection.execute("SELECT pg_advisory_lock(815)")
        waiting = threading.Thread(
            target=execute_elsewhere,
            args=("INSERT INTO THINGS VALUES (1, 'a', 1, 'k')",),
        )
        waiting.start()
        eventually(
            lambda: connection.execute(
                "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database "
                "WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            ).fetchall()
        )
        connection.execute("SELECT pgqueue_publish('legacy.Things.insert', '1', 'k')")
        ids = "SELECT id FROM pgqueue_event_inbox WHERE payload = '1'"
        before = connection.execute(ids).fetchall()
        connection.execute("SELECT pg_advisory_unlock(815)")
        waiting.join(10)

        assert connection.execute(ids).fetchall() == before
        assert [event.topic.rpartition(".")[2] for event in read()] == [
            "insert",
            "insert",
            "update",
        ]

    def test_forges_nothing_by_the_setting(self, track: Track) -> None:
        track(table=THINGS)
        for setting in ("x", "1 1", "9 " * 50 + "9", "1" * 30, "-1"):
            with transaction.atomic():
                execute("SELECT set_config('pgqueue.nested', %s, true)", setting)
                execute(INSERT)
                execute("DELETE FROM THINGS")

        assert len(read(limit=100)) == 5 * 6

    def test_of_foreign_keys_changes_a_row_twice(self, track: Track) -> None:
        execute(
            "CREATE TABLE legacy.users (id int PRIMARY KEY); "
            "CREATE TABLE legacy.texts (id int PRIMARY KEY, "
            "author int REFERENCES legacy.users ON DELETE SET NULL, "
            "editor int REFERENCES legacy.users ON DELETE SET NULL); "
            "INSERT INTO legacy.users SELECT generate_series(1, 50); "
            "INSERT INTO legacy.texts SELECT n, n, 51 - n FROM generate_series(1, 50) n"
        )
        track(table="legacy.texts")

        execute("DELETE FROM legacy.users")

        assert len(read(limit=200)) == 50
        assert state("legacy.texts") == rows_of("legacy.texts")
        assert all(
            event.payload["diff"] == {"author": None, "editor": None} for event in read(limit=200)
        )


def execute_elsewhere(statement: str) -> None:
    """Run a statement in a session of its own."""
    with closing(connect("default", name="test")) as session:
        session.execute(statement.replace("THINGS", 'legacy."Things"'))


@pytest.mark.usefixtures("things")
class TestAWriteIsNeverRefused:
    ODD = [
        '{"a": "\\u0000"}',
        '["\\ud800"]',
        "1e1000000",
        '{"a": [1e-100000]}',
    ]

    @pytest.fixture(autouse=True)
    def docs(self, things: None) -> None:
        execute("CREATE TABLE legacy.docs (id int PRIMARY KEY, doc json, note text, docs json[])")

    @pytest.mark.parametrize("odd", ODD)
    def test_for_json_that_jsonb_does_not_have(self, track: Track, odd: str) -> None:
        track(table="legacy.docs")

        execute("INSERT INTO legacy.docs VALUES (1, %s, 'n', NULL), (2, '[1]', 'm', NULL)", odd)
        execute("UPDATE legacy.docs SET note = 'o'")
        execute("UPDATE legacy.docs SET docs = ARRAY[doc] WHERE id = 1")
        execute("DELETE FROM legacy.docs")

        events = [event for event in read() if event.key == "1"]
        assert [event.topic.rpartition(".")[2] for event in events] == [
            "insert",
            "update",
            "update",
            "delete",
        ]
        assert events[0].payload["new"] == {"id": 1, "doc": odd, "note": "n", "docs": None}
        assert events[1].payload["diff"] == {"note": "o"}
        assert set(events[2].payload["diff"]) == {"docs"}
        # What jsonb has is JSON as ever, also beside it.
        assert next(event.payload["new"] for event in read() if event.key == "2") == {
            "id": 2,
            "doc": [1],
            "note": "m",
            "docs": None,
        }

    def test_for_a_column_that_comes_later(self, track: Track) -> None:
        track(table=THINGS, exclude=["secret"])
        execute(
            'ALTER TABLE legacy."Things" ADD COLUMN "the %% doc" json; '
            "CREATE DOMAIN legacy.odd AS json; "
            'ALTER TABLE legacy."Things" ADD COLUMN odd legacy.odd'
        )

        execute("INSERT INTO legacy.\"Things\" VALUES (1, 'a', 1, 's', '1e1000000', '\"\\u0000\"')")

        assert only().payload["new"] == {
            "id": 1,
            "name": "a",
            "size": 1,
            "the %% doc": "1e1000000",
            "odd": '"\\u0000"',
        }

    @pytest.mark.slow
    def test_for_what_is_too_large_for_jsonb(self, track: Track) -> None:
        track(table="legacy.docs")

        execute(
            "INSERT INTO legacy.docs "
            "VALUES (1, to_json(repeat('x', 30000000)), repeat('y', 40000000))"
        )

        assert only().payload["new"]["id"] == 1
        assert only().payload["new"]["doc"] is None

    @pytest.mark.parametrize(
        "column",
        [
            "pgqueue_row",
            "pgqueue_shown",
            "pgqueue_metadata",
            "r",
            "new",
            "old",
            "key",
            "id_",
            "hidden",
        ],
    )
    def test_for_the_name_of_a_column(self, track: Track, column: str) -> None:
        track(table=THINGS)
        execute(f'ALTER TABLE legacy."Things" ADD COLUMN "{column}" text DEFAULT \'d\'')
        execute(INSERT)
        execute('UPDATE legacy."Things" SET size = 9 WHERE id = 1')
        track(table=THINGS, only_if=f'coalesce(new."{column}", old."{column}") = \'d\'')
        execute('DELETE FROM legacy."Things" WHERE id = 1')

        events = [event for event in read() if event.key == "1"]
        assert len(events) == 3
        for event in events:
            row = event.payload["new"] or event.payload["old"]
            assert row.keys() == {"id", "name", "size", "secret", column}
            assert row[column] == "d"

    def test_but_the_names_that_are_added_are_refused(self, track: Track) -> None:
        execute('ALTER TABLE legacy."Things" ADD COLUMN "pgqueue: row" text')

        with pytest.raises(InvalidTracking, match="'pgqueue: row'"):
            forwards(TrackTable(table=THINGS))


@pytest.mark.usefixtures("things")
class TestNumbers:
    EXACT = Decimal("12345678901234567890.123")

    def test_arrive_with_all_their_digits(self, track: Track) -> None:
        track(table=THINGS)

        execute("INSERT INTO THINGS VALUES (1, 'a', %s), (2, 'b', 2.50)", self.EXACT)

        exact, short = (event.payload["new"]["size"] for event in read())
        assert (exact, type(exact)) == (self.EXACT, Decimal)
        assert (short, type(short)) == (2.5, float)

    def test_are_exact_in_what_a_message_brings(self, track: Track) -> None:
        track(table=THINGS)
        execute("INSERT INTO THINGS VALUES (1, 'a', %s)", self.EXACT)
        plain = {**only().to_plain(), "payload": from_json(only().payload_json or "")}

        by_the_dispatch = RecordedEvent.from_plain(plain)
        passed_on = FORM.read(from_json(to_json(FORM.write(only()))))

        assert by_the_dispatch.payload["new"]["size"] == self.EXACT
        assert by_the_dispatch.payload == passed_on.payload == only().payload
        assert from_json(by_the_dispatch.payload_json or "") == from_json(only().payload_json or "")

    def test_are_exact_in_typed_events(self, track: Track) -> None:
        track(table=THINGS)
        execute("INSERT INTO THINGS VALUES (1, 'a', %s), (2, 'b', 2.50)", self.EXACT)

        untyped = [event.as_event(Untyped).new["size"] for event in read()]
        typed = [event.as_event(Typed).new.size for event in read()]

        assert untyped == [self.EXACT, 2.5]
        assert list(map(str, typed)) == [str(self.EXACT), "2.50"]


class Untyped(Event):
    """What happened to a thing, as it is."""

    new: dict[str, Any]


@dataclass(frozen=True)
class Thing:
    """A thing, by its columns."""

    id: int
    name: str
    size: Decimal
    secret: str | None


class Typed(Event):
    """What happened to a thing."""

    new: Thing


@pytest.mark.usefixtures("things")
def test_a_table_waits_for_the_log() -> None:
    execute("SET search_path = legacy")
    try:
        with pytest.raises(InvalidTracking, match="depends on.*pgqueue"):
            forwards(TrackTable(table="Things"))
    finally:
        execute("RESET search_path")


def test_what_the_database_functions_make() -> None:
    def ask(statement: str) -> Any:
        with django.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0]

    old, new = '{"a": 1, "b": null, "c": [1]}', '{"a": 1.0, "b": 2, "d": null}'
    assert json.loads(ask(f"SELECT pgqueue_diff_v1('{old}', '{new}')")) == {
        "b": 2,
        "c": None,
        "d": None,
    }
    assert json.loads(ask("SELECT pgqueue_acting_v1()")) == {}
    with transaction.atomic():
        execute("SET LOCAL pgqueue.acting = 'ada'")
        assert json.loads(ask("SELECT pgqueue_acting_v1()")) == {"user": "ada"}
    assert json.loads(ask("SELECT pgqueue_acting_v1()")) == {}
