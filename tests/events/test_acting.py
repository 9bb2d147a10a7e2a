from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection as django
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from pgqueue import InvalidEvent, acting_as, publish, publish_many, read
from pgqueue.database.session_state import changes_session
from pgqueue.events import acting as acting_module
from pgqueue.events.acting import ActingMiddleware, acting
from pgqueue.operations import TrackTable
from testproject.shop.factories import ProductFactory
from testproject.shop.models import Product
from tests.events.test_tracking import backwards, execute, forwards


@pytest.fixture
def tracked(transactional_db: None) -> Iterator[None]:
    """Products are tracked."""
    operation = TrackTable("shop.Product")
    forwards(operation)
    yield
    backwards(operation)
    Product.objects.all().delete()


@pytest.fixture(autouse=True)
def _users_are_deleted(transactional_db: None) -> Iterator[None]:
    yield
    User.objects.all().delete()


def who() -> list[Any]:
    """Return who acted, by all events."""
    return [event.metadata.get("acting") for event in read()]


@contextmanager
def outside() -> Iterator[None]:
    """Nobody acts."""
    before = acting_module._said.get()
    acting_module._said.set(())
    yield
    acting_module._said.set(before)


def settings_of(queries: CaptureQueriesContext) -> int:
    return sum("set_config" in each["sql"] for each in queries.captured_queries)


class TestAnEvent:
    def test_has_who_acts_in_its_metadata(self) -> None:
        with acting_as(user="ada", reason="refund", ticket=7):
            publish("a", metadata={"n": 1})
            publish_many([("a", 1)])
        publish("a")

        assert [event.metadata for event in read()] == [
            {"acting": {"user": "ada", "reason": "refund", "ticket": 7}, "n": 1},
            {"acting": {"user": "ada", "reason": "refund", "ticket": 7}},
            {},
        ]

    def test_may_say_it_by_itself(self) -> None:
        with acting_as(user="ada"):
            publish("a", metadata={"acting": "other"})

        assert who() == ["other"]


class TestWhoActs:
    def test_is_nobody_at_first(self) -> None:
        assert acting() == {}

    def test_is_added_to_by_a_block_within(self) -> None:
        outer = acting_as(user="ada", reason="refund")
        with outer:
            with acting_as(reason="mistake"), outer, acting_as(user="bob"):
                assert acting() == {"user": "bob", "reason": "refund"}
            with pytest.raises(ZeroDivisionError), acting_as(more=[1]):
                assert acting() == {"user": "ada", "reason": "refund", "more": [1]}
                raise ZeroDivisionError
            assert acting() == {"user": "ada", "reason": "refund"}
        assert acting() == {}

    def test_may_be_a_user_of_django(self) -> None:
        user = User.objects.create(username="ada")

        with acting_as(user=user):
            assert acting() == {"user": {"id": user.pk, "name": "ada"}}
        with acting_as(user=AnonymousUser()):
            assert acting() == {}

    def test_is_asked_for_when_it_is_needed(self) -> None:
        asked = []

        def ask() -> Any:
            asked.append(acting())
            return User.objects.get_or_create(username="ada")[0]

        with acting_as(user="outer"), acting_as(user=ask, reason="r"):
            list(User.objects.all())
            assert asked == []
            publish("a")
            User.objects.all().update(first_name="Ada")

        assert asked == [{}, {}]
        assert who() == [{"user": {"id": User.objects.get().pk, "name": "ada"}, "reason": "r"}]

    def test_is_of_one_thread(self) -> None:
        found = []

        with acting_as(user="ada"):
            thread = Thread(target=lambda: found.append(acting()))
            thread.start()
            thread.join()

        assert found == [{}]

    def test_is_of_one_coroutine(self) -> None:
        async def act(name: str) -> Any:
            with acting_as(user=name):
                await asyncio.sleep(0)
                return acting()["user"]

        async def main() -> Any:
            return await asyncio.gather(*map(act, "abc"))

        assert asyncio.run(main()) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("options", "said"),
        [({"user": object()}, "user="), ({"reason": object()}, "reason"), ({"n": {1}}, "n")],
    )
    def test_is_refused_if_it_can_not_be_stored(self, options: Any, said: str) -> None:
        with pytest.raises(InvalidEvent, match=said):
            acting_as(**options)


@pytest.mark.usefixtures("tracked")
class TestATrigger:
    def test_is_told_in_a_transaction_and_outside_of_one(self) -> None:
        with acting_as(user="ada", reason="ünïts ' \\"):
            product = ProductFactory()
            with transaction.atomic():
                product.delete()

        assert who() == [{"user": "ada", "reason": "ünïts ' \\"}] * 2

    def test_is_told_once_in_a_transaction(self) -> None:
        with acting_as(user="ada"), CaptureQueriesContext(django) as queries:
            with transaction.atomic():
                for number in range(3):
                    transaction.on_commit(lambda: None)
                    with transaction.atomic():
                        ProductFactory(sku=number)
                list(Product.objects.all())
            list(Product.objects.all())

        assert settings_of(queries) == 1
        assert who() == [{"user": "ada"}] * 3

    def test_is_told_again_after_a_savepoint_was_rolled_back(self) -> None:
        with acting_as(user="ada"), transaction.atomic():
            with transaction.atomic():
                ProductFactory(sku="a")
                transaction.set_rollback(True)
            ProductFactory(sku="b")
            with acting_as(user="bob"), transaction.atomic():
                ProductFactory(sku="c")
                transaction.set_rollback(True)
            ProductFactory(sku="d")

        assert who() == [{"user": "ada"}] * 2

    @pytest.mark.parametrize("outer", ["ada", None])
    @pytest.mark.parametrize("inner", ["bob", None])
    @pytest.mark.parametrize("is_raw", [True, False])
    def test_is_told_again_after_a_rollback_to_a_savepoint_without_a_block(
        self, outer: str | None, inner: str | None, is_raw: bool
    ) -> None:
        with acting_as(user="eve"), transaction.atomic():
            with acting_as(user=outer) if outer else outside():
                ProductFactory(sku="a")
            savepoint = '"own"' if is_raw else transaction.savepoint()
            if is_raw:
                execute(f"SAVEPOINT {savepoint}")
            with acting_as(user=inner) if inner else outside():
                ProductFactory(sku="b")
            if is_raw:
                execute(f"ROLLBACK WORK TO {savepoint}")
            else:
                transaction.savepoint_rollback(savepoint)
            with acting_as(user=inner) if inner else outside():
                ProductFactory(sku="c")
            ProductFactory(sku="d")

        users = [each and each["user"] for each in who()]
        assert users == [outer, inner, "eve"]

    def test_is_told_after_many_savepoints_by_few_hooks(self) -> None:
        with acting_as(user="ada"), transaction.atomic():
            for number in range(20):
                savepoint = transaction.savepoint()
                ProductFactory(sku=number)
                transaction.savepoint_rollback(savepoint)
            hooks = len(django.run_on_commit)
            ProductFactory(sku="a")

        assert hooks == 1
        assert who() == [{"user": "ada"}]

    def test_is_told_of_changes_in_a_transaction(self) -> None:
        with transaction.atomic():
            ProductFactory(sku="a")
            with acting_as(user="ada"):
                ProductFactory(sku="b")
                with acting_as(user="bob"):
                    ProductFactory(sku="c")
                ProductFactory(sku="d")
            ProductFactory(sku="e")
        ProductFactory(sku="f")

        assert who() == [None, {"user": "ada"}, {"user": "bob"}, {"user": "ada"}, None, None]

    def test_is_told_in_a_transaction_that_django_does_not_manage(self) -> None:
        transaction.set_autocommit(False)
        try:
            with acting_as(user="ada"):
                ProductFactory(sku="a")
            ProductFactory(sku="b")
            transaction.commit()
            ProductFactory(sku="c")
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        assert who() == [{"user": "ada"}, None, None]

    def test_is_told_after_a_rollback_in_a_transaction_that_django_does_not_manage(self) -> None:
        transaction.set_autocommit(False)
        try:
            with acting_as(user="ada"):
                ProductFactory(sku="a")
            savepoint = transaction.savepoint()
            ProductFactory(sku="b")
            transaction.savepoint_rollback(savepoint)
            ProductFactory(sku="c")
            with acting_as(user="bob"):
                ProductFactory(sku="d")
            with transaction.atomic():
                ProductFactory(sku="e")
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        assert who() == [{"user": "ada"}, None, {"user": "bob"}, None]

    @pytest.mark.parametrize(
        "statement",
        [
            "/* a */ -- b\n UPDATE shop_product SET stock = -1",
            "WITH made AS (SELECT 1) UPDATE shop_product SET stock = -1 FROM made",
            "with gone as (delete from shop_product returning id) select * from gone",
            "SELECT 1; DELETE FROM shop_product",
            b"DELETE FROM shop_product",
            "PREPARE gone AS DELETE FROM shop_product; EXECUTE gone; DEALLOCATE gone",
        ],
    )
    def test_is_told_before_whatever_writes(self, statement: Any) -> None:
        ProductFactory()

        with acting_as(user="ada"):
            execute(statement)

        assert who() == [None, {"user": "ada"}]

    def test_is_not_told_before_what_only_reads(self) -> None:
        with acting_as(user="ada"), CaptureQueriesContext(django) as queries:
            Product.objects.count()
            execute("SHOW server_version")
            execute("SELECT 'insert;'")

        assert settings_of(queries) == 0

    def test_leaves_procedures_alone_that_commit(self) -> None:
        execute(
            "CREATE PROCEDURE commits() LANGUAGE plpgsql AS "
            "$$ BEGIN DELETE FROM shop_product; COMMIT; END $$"
        )
        try:
            with acting_as(user="ada"):
                execute("CALL commits()")
        finally:
            execute("DROP PROCEDURE commits")

    def test_changes_nothing_for_those_who_wrap_statements_themselves(self) -> None:
        seen = []

        def wrapper(execute: Any, sql: Any, *args: Any) -> Any:
            seen.append(sql)
            return execute(sql, *args)

        django.close()
        del django.execute_wrappers[:]
        with acting_as(user="ada"), django.execute_wrapper(wrapper):
            ProductFactory()
        before = len(seen)
        with acting_as(user="ada"):
            ProductFactory()

        assert before == len(seen)
        assert who() == [{"user": "ada"}] * 2

    def test_costs_a_task_no_connection(self) -> None:
        assert not changes_session(acting_module._SET)

    def test_leaves_hooks_on_commit_as_they_are(self) -> None:
        ran = []

        with acting_as(user="ada"), transaction.atomic():
            transaction.on_commit(lambda: ran.append(1))
            ProductFactory()
            transaction.on_commit(lambda: ran.append(2))

        assert ran == [1, 2]


class TestTheMiddleware:
    def request(self) -> HttpRequest:
        request = RequestFactory().get("/")
        request.user = User(pk=7, username="ada")
        return request

    def test_has_the_user_of_the_request_act(self) -> None:
        def answer(request: HttpRequest) -> HttpResponse:
            return HttpResponse(json.dumps(acting()))

        response: Any = ActingMiddleware(answer)(self.request())

        assert json.loads(response.content) == {"user": {"id": 7, "name": "ada"}}
        assert acting() == {}

    def test_follows_a_login_and_a_request_without_users(self) -> None:
        def answer(request: HttpRequest) -> HttpResponse:
            found = [acting()]
            request.user = User(pk=8, username="bob")
            found.append(acting())
            del request.user
            return HttpResponse(json.dumps([*found, acting()]))

        response: Any = ActingMiddleware(answer)(self.request())

        first, second, third = json.loads(response.content)
        assert (first["user"]["name"], second["user"]["name"], third) == ("ada", "bob", {})

    def test_does_so_for_async_views(self) -> None:
        async def answer(request: HttpRequest) -> HttpResponse:
            return HttpResponse(json.dumps(acting()))

        async def main() -> Any:
            middleware: Any = ActingMiddleware(answer)
            return await middleware(self.request())

        assert json.loads(asyncio.run(main()).content) == {"user": {"id": 7, "name": "ada"}}


@pytest.mark.django_db(databases=["default", "second"])
def test_each_database_that_has_the_log_is_told() -> None:
    def said(alias: str) -> Any:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("DELETE FROM pgqueue_reader")
            cursor.execute("SELECT pgqueue_acting_v1()")
            return json.loads(cursor.fetchone()[0])

    with acting_as(user="ada"):
        assert [said("default"), said("second")] == [{"user": "ada"}] * 2
