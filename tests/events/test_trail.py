from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from typing import Any

import psycopg
import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection as django
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import OperationWriter
from django.test import Client
from django.urls import path
from django.utils import timezone
from pytest_django import Settings

from pgqueue import acting_as, publish
from pgqueue.admin.trail import AuditTrail
from pgqueue.engine import event_partitions
from pgqueue.events.trail import key_of, topic_of_model, trail
from pgqueue.operations import IndexTrail, TrackTable
from testproject.shop.factories import ProductFactory
from testproject.shop.models import Product
from tests.events.test_tracking import backwards, execute, forwards

Connection = psycopg.Connection[Any]


class ProductAdmin(AuditTrail, admin.ModelAdmin):  # type: ignore[type-arg]
    pass


site = admin.AdminSite()
site.register(Product, ProductAdmin)
urlpatterns = [path("admin/", site.urls)]


@pytest.fixture(autouse=True)
def tracked(transactional_db: None, settings: Settings) -> Iterator[None]:
    """Products are tracked, and in the admin."""
    settings.ROOT_URLCONF = __name__
    operation = TrackTable("shop.Product")
    forwards(operation)
    yield
    backwards(operation)
    for model in (Product, LogEntry, User):
        model.objects.all().delete()


@pytest.fixture
def indexed(tracked: None) -> Iterator[None]:
    """The log has the index that IndexTrail makes."""
    operation, state = IndexTrail(), ProjectState()
    with django.schema_editor() as editor:
        operation.database_forwards("shop", editor, state, state)
    yield
    with django.schema_editor() as editor:
        operation.database_backwards("shop", editor, state, state)


def log(connection: Connection, *rows: tuple[int, str, str]) -> None:
    """Put events at positions of the log."""
    for position, topic, key in rows:
        connection.execute(
            "INSERT INTO pgqueue_event (position, topic, key, metadata, created_at) "
            "VALUES (%s, %s, %s, '{}', statement_timestamp())",
            [position, topic, key],
        )


def one(connection: Connection, statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    assert row
    return row


class TestATrail:
    def test_has_the_newest_events_of_a_key(self, connection: Connection) -> None:
        log(connection, (1, "t.insert", "a"), (2, "t.update", "b"), (3, "t.update", "a"))
        log(connection, (4, "other.update", "a"), (1_000_001, "t.delete", "a"))

        found = trail("t", "a")

        assert [event.position for event in found.events] == [1_000_001, 3, 1]
        assert found.since is None

    def test_may_have_topics_of_its_own(self, connection: Connection) -> None:
        log(connection, (1, "t.insert", "a"), (2, "t.update", "a"))

        assert [event.position for event in trail(["t.insert"], "a").events] == [1]

    def test_says_where_it_ends(self, connection: Connection) -> None:
        before = timezone.now()
        log(connection, (1, "t.insert", "a"), (2, "t.update", "a"), (1_000_001, "t.delete", "a"))

        short, hurried = trail("t", "a", limit=2), trail("t", "a", look_for=0)

        assert [event.position for event in short.events] == [1_000_001, 2]
        assert [event.position for event in hurried.events] == [1_000_001]
        assert short.since is not None
        assert hurried.since is not None
        assert before < short.since <= hurried.since

    def test_has_what_was_published_just_now(self) -> None:
        publish("t.insert", key="a")

        assert len(trail("t", "a").events) == 1

    @pytest.mark.usefixtures("indexed")
    def test_reads_only_the_pages_that_may_have_it(self, connection: Connection) -> None:
        connection.execute(
            "INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at) "
            "SELECT i, 't.update', 'k' || i, to_jsonb(repeat('x', 100)), '{}', now() "
            "FROM generate_series(1, 50000) i"
        )
        connection.execute("VACUUM ANALYZE pgqueue_event_0")
        connection.execute("SET enable_seqscan = on")

        (pages,) = one(
            connection, "SELECT relpages FROM pg_class WHERE relname = 'pgqueue_event_0'"
        )
        (plan,) = one(
            connection,
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgqueue_trail_v1("
            "'pgqueue_event_0'::regclass, '{t.update}', 'k777', 10)",
        )

        node = plan[0]["Plan"]
        assert node["Actual Rows"] == 1
        assert node["Shared Hit Blocks"] + node["Shared Read Blocks"] < pages / 2

    @pytest.mark.usefixtures("indexed")
    def test_is_indexed_in_new_partitions_too(self, connection: Connection) -> None:
        log(connection, (1_000_001, "t.insert", "a"))
        made = event_partitions.ensure(connection)
        names = connection.execute(
            "SELECT count(*) FILTER (WHERE i.relname IS NOT NULL), count(*) FROM pg_inherits p "
            "LEFT JOIN (SELECT x.indrelid, c.relname FROM pg_index x JOIN pg_class c ON "
            "c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'brin' AND "
            "pg_get_indexdef(c.oid) LIKE '%bloom%') i ON i.indrelid = p.inhrelid "
            "WHERE p.inhparent = 'pgqueue_event'::regclass"
        ).fetchone()

        if made:
            connection.execute("DROP TABLE pgqueue_event_2")

        assert names is not None
        assert names[0] == names[1] == 3

    def test_says_how_its_index_is_made(self) -> None:
        code, imports = OperationWriter(IndexTrail(), indentation=0).serialize()

        assert (code.split(), imports) == (
            ["pgqueue.operations.IndexTrail(", "),"],
            {"import pgqueue.operations"},
        )


class TestThePage:
    def page(self, product: Product, *permissions: str) -> str:
        user = User.objects.create(username="viewer", is_staff=True)
        names = ["view_product", *permissions]
        user.user_permissions.set(Permission.objects.filter(codename__in=names))
        client = Client()
        client.force_login(user)
        response: Any = client.get(f"/admin/shop/product/{product.pk}/history/")
        assert response.status_code == 200
        return unescape(response.content.decode())

    def test_shows_what_happened_who_did_it_and_why(self) -> None:
        product = ProductFactory(name="Tea <b>", stock=5)
        with acting_as(user=User.objects.create(username="ada"), reason="stocktaking", shelf=3):
            Product.objects.update(stock=1234567)
        execute(
            "BEGIN; SET LOCAL pgqueue.acting = 'psql'; UPDATE shop_product SET stock = 4; COMMIT"
        )
        ProductFactory(name="another")

        page = self.page(product, "view_event")

        ada = User.objects.get(username="ada").pk
        for said in (
            "insert",
            f"ada (#{ada})",
            "stocktaking, shelf: 3",
            "<b>stock</b>: <del>5</del>",
            "<ins>1234567</ins>",
            "psql",
            "<del>1234567</del>",
            "<ins>4</ins>",
            "<ins>Tea <b></ins>",
        ):
            assert said in page
        assert "another" not in page

    def test_shows_the_trail_only_to_those_who_may_view_events(self) -> None:
        assert "In the database" not in self.page(ProductFactory())

    def test_says_that_there_is_nothing(self) -> None:
        product = ProductFactory()
        execute("DELETE FROM pgqueue_event_inbox")

        assert "The log has no events of this object." in self.page(product, "view_event")

    def test_shows_what_others_published_under_its_topic_as_far_as_it_goes(self) -> None:
        product = ProductFactory()
        odd = [None, "text", [1], {"old": "text", "new": [1], "diff": 7}, {"diff": {"a": "<i>"}}]
        for payload in odd:
            publish(f"{topic_of_model(Product)}.update", payload, key=key_of(product))

        page = self.page(product, "view_event")

        assert page.count("at position") == len(odd) + 1

    @pytest.mark.parametrize(
        "text",
        [f'{{"new": {{"stock": {"9" * 5000}}}}}', f"{'[' * 3000}{']' * 3000}"],
        ids=["number", "nesting"],
    )
    def test_shows_an_event_that_python_does_not_read_without_its_changes(self, text: str) -> None:
        product = ProductFactory()
        topic, key = f"{topic_of_model(Product)}.update", key_of(product)
        with django.cursor() as cursor:
            cursor.execute("SELECT pgqueue_publish(%s, %s::jsonb, %s)", [topic, text, key])
            cursor.execute(
                "SELECT pgqueue_publish(%s, NULL, %s, %s::jsonb)", [topic, key, f'{{"a": {text}}}']
            )

        page = self.page(product, "view_event")

        assert page.count("at position") == 3
