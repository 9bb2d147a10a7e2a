"""Messages are found by their arguments, metadata, tags and errors, as people are shown them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection

from pgqueue import send
from pgqueue.listing.messages import newest_first
from pgqueue.models import Message
from pgqueue.operating import bulk, searching
from pgqueue.values.searches import MOST_BYTES, parsed
from tests import encrypted_jobs, jobs
from tests.factories import Connection, bury, enqueue, insert
from tests.indexing import indexed_for_search
from tests.management.calling import call


@pytest.fixture(params=[False, True], ids=["without an index", "with an index"])
def _index(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """Messages have the index of IndexSearch, or not: a search means the same."""
    with indexed_for_search() if request.param else nullcontext():
        yield


def found(text: str) -> list[int]:
    return bulk.find_messages(bulk.Filter(match=text)).ids


def listed(*words: str) -> list[int]:
    return [each["id"] for each in call("pgqueue_list", *words, "--format=json").objects]


def stored(payload: Any, **columns: Any) -> int:
    return insert(payload=json.dumps(payload), **columns)


@pytest.mark.usefixtures("_index")
class TestArguments:
    @pytest.mark.parametrize("call", [((1, 2), {}), ((), {"a": 1, "b": 2}), ((1,), {"b": 2})])
    def test_a_named_argument_is_found_however_it_was_given(self, queue: Any, call: Any) -> None:
        args, kwargs = call
        jobs.add.enqueue(9, 9)
        id = int(jobs.add.enqueue(*args, **kwargs).id)

        assert found("args.b=2") == [id]
        assert listed("--match=args.b=2") == [id]
        assert found("args.b=3") == found("args.c=2") == []

    def test_a_path_leads_into_it_and_into_the_items_of_lists(self, queue: Connection) -> None:
        one = insert(queue, payload='{"args": [], "kwargs": {"order": {"id": 7}}}')
        several = insert(queue, payload='{"args": [], "kwargs": {"order": [{"id": 7.0}]}}')
        insert(queue, payload='{"args": [], "kwargs": {"order": 7, "id": {"order": 7}}}')

        assert found("args.order.id=7") == [several, one]

    @pytest.mark.parametrize(
        ("value", "text"),
        [("7", '"7"'), ("-1.5e2", "-150"), ("true", "true"), ("null", "null"),
         ('a"b\\ $.x', '"a\\"b\\\\ $.x"'), ("\U0001f600", '"\U0001f600"')],
    )  # fmt: skip
    def test_a_value_equals_a_text_or_the_value_of_json(
        self, queue: Connection, value: str, text: str
    ) -> None:
        id = insert(queue, payload=f'{{"args": [{text}], "kwargs": {{}}}}')

        assert found(f"args.0={value}") == [id]
        assert found("args.0=false") == []

    @pytest.mark.parametrize(
        ("payload", "text"),
        [
            ({"kwargs": {"blocks": [{"w": 640}, "hello"]}}, "args.blocks=hello"),
            ({"kwargs": {"blocks": [{"w": 640}, [], None, "hello"]}}, "args.blocks=null"),
            ({"kwargs": {"blocks": [[{"w": 1}], {"w": 640}]}}, "args.blocks.w=640"),
            ({"kwargs": [{"w": 640.0}]}, "args.w=640"),
            ({"args": {"x": 7}}, "args.0.x=7"),
            ({"args": {"x": {}}, "kwargs": {"0": 5}}, "args.0=5"),
            ({"args": 5}, "args.0=5"),
            ({"args": "ab"}, "args.0=ab"),
            ({"args": None}, "args.0=null"),
            ({"args": [True]}, "args.0=true"),
        ],
    )
    def test_odd_ones_are_found_as_postgresql_reads_them(
        self, queue: Connection, payload: Any, text: str
    ) -> None:
        id = insert(queue, payload=json.dumps(payload))
        insert(queue, payload='{"args": {"x": [8, {}]}, "kwargs": 8}')
        insert(queue, payload='{"args": false, "kwargs": null}')

        assert found(text) == listed(f"--match={text}") == [id]

    def test_deep_ones_are_compared(self, queue: Connection) -> None:
        deep = "[" * 600 + "]" * 600
        id = insert(queue, payload=f'{{"kwargs": {{"a": [{deep}, 7]}}}}')

        assert found("args.a=7") == [id]

    def test_an_encrypted_one_is_not_searched(self, queue: Connection) -> None:
        encrypted_jobs.keep.enqueue("4242")

        assert Message.objects.exists()
        assert found("args.0=4242") == []

    def test_a_large_one_is_not_searched(self, queue: Any, monkeypatch: Any) -> None:
        insert(queue, payload='{"args": [1], "kwargs": {}}')
        assert len(found("args.0=1")) == 1
        monkeypatch.setitem(
            searching.CONDITIONS,
            "args",
            searching.CONDITIONS["args"].replace("65536", "1"),
        )

        assert found("args.0=1") == []


@pytest.mark.usefixtures("_index")
class TestRedactedValues:
    def test_of_hidden_fields_are_found_by_nobody(self, queue: Connection) -> None:
        insert(
            queue,
            payload='{"args": [], "kwargs": {"password": "hunter22", "user": "ada"}}',
            metadata='{"token": "hunter22"}',
        )

        assert found("args.password=hunter22") == found("meta.token=hunter22") == []
        assert len(found("args.user=ada")) == 1

    def test_of_errors_are_found_by_nobody(self, queue: Connection) -> None:
        insert(
            queue,
            state="dead",
            payload='{"args": [], "kwargs": {"password": "hunter22"}}',
            errors='[{"class": "E", "message": "no hunter22 here"}]',
        )

        assert found("error=hunter22") == []
        assert len(found("error=NO ")) == 1


@pytest.mark.usefixtures("_index")
def test_metadata_tags_and_errors_are_found(queue: Connection) -> None:
    jobs.add.using(metadata={"tenant": "a"}).enqueue(1, 2)
    jobs.add.using(tags=["import", "nightly"]).enqueue(1, 2)
    tenant, tagged = Message.objects.order_by("pk").values_list("pk", flat=True)
    (dead,) = bury(queue, channel="mail")
    Message.objects.filter(pk=dead).update(errors=[{"class": "E", "message": "No such Order"}])

    assert found("meta.tenant=a") == [tenant]
    assert found("tag=nightly") == [tagged]
    assert found("error=such order") == [dead]
    assert listed("--match=error=such order", "--state=dead", "--error=E") == [dead]
    assert listed("--match=error=such order", "--error=F") == []


class TestAnswer:
    @pytest.fixture(autouse=True)
    def reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searching, "REACH", 4)

    def test_says_which_stretch_it_looked_through(self, queue: Connection, monkeypatch: Any):
        oldest = insert(queue, metadata='{"tags": ["import"]}')
        ids = enqueue(queue, 6)
        only = bulk.Filter(match="tag=import")

        some, all_of_them = bulk.find_messages(only, seconds=0), bulk.find_messages(only)
        monkeypatch.setattr("pgqueue.management.commands.pgqueue_list.LOOK_FOR", -1)
        said = call("pgqueue_list", "--match=tag=import").err

        unseen = Message.objects.get(pk=ids[1]).created_at
        assert (some.ids, some.is_all, some.looked_at, some.back_to) == ([], False, 4, unseen)
        assert (all_of_them.ids, all_of_them.is_all) == ([oldest], True)
        assert f"Looked through 4 messages, back to {unseen:%Y-%m-%dT%H:%M:%SZ}." in said
        assert "There may be more: --start" in said

    def test_reads_a_bounded_number_of_rows(self, queue: Connection) -> None:
        enqueue(queue, 2000)
        listing = newest_first(Message.objects.all(), bulk.Filter(match="args.0=-1").wanted())

        plans: list[Any] = []

        def explain(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
            if "jsonpath" in str(sql) and "EXPLAIN" not in str(sql):
                with connection.cursor() as cursor:
                    text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
                    cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json, TIMING off) {text}", params)
                    plans.append(cursor.fetchone()[0])
            return execute(sql, params, many, context)

        with connection.execute_wrapper(explain):
            listing.stretch()

        (plan,) = plans
        assert 0 < _most_rows(plan[0]["Plan"]) <= 4


def _most_rows(node: dict[str, Any]) -> float:
    own = 0.0
    if node.get("Relation Name"):
        own = node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
    return max([own, *map(_most_rows, node.get("Plans", []))])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no search"),
        ("args", "is no search"),
        ("arg.a=1", "Did you mean 'args'"),
        ("args.a=", "no value"),
        ("args=1", "must lead to"),
        ("args..a=1", "must lead to"),
        ("tag.a=1", "has no names"),
        ("tag=\x00", "NUL"),
        ("tag=\ud800", "surrogates"),
        ("tag=" + "x" * MOST_BYTES, "1000 bytes"),
        ("args." + "a." * 30 + "b=1", "1 to 20 names"),
    ],
)
def test_a_text_that_says_no_search_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        bulk.Filter(match=text)


@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize(
    "text",
    ['args.a"b=1', "args.a'b=')", "args.a.b=1e999", "args.a=1e9999", "args.0=9" + "9" * 900,
     "meta.a\\=x", "args.99999=1", "tag='; DROP TABLE x", "error=%s %", "args.a=$.x ? (@ == 1)",
     "meta.$=1", "args.*=1", "error=" + "x" * 990, "args.a={}"],
)  # fmt: skip
def test_a_text_that_nobody_would_write_finds_nothing(queue: Connection, text: str) -> None:
    send("mail", {"a": 1})
    enqueue(queue)
    parsed(text)

    assert found(text) == []
    assert listed(f"--match={text}") == []


def test_a_command_refuses_what_is_no_search(queue: Connection) -> None:
    with pytest.raises(CommandError, match="is no search"):
        call("pgqueue_list", "--match=order=7")
