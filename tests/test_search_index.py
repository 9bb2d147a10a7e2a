"""The index of IndexSearch: searches by contents look through everything, however much there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import checks
from django.db import connection
from django.db.migrations.writer import OperationWriter

from pgqueue import send
from pgqueue.engine import search_index
from pgqueue.engine.partitioning import make_partition
from pgqueue.listing import index
from pgqueue.listing.index import NEWEST_FIRST, Comparison
from pgqueue.listing.messages import everything
from pgqueue.models import History, Message
from pgqueue.operating import bulk, searching
from pgqueue.operations import IndexSearch
from tests import encrypted_jobs
from tests.factories import Connection, insert, one
from tests.indexing import change_search_index, indexed_for_search
from tests.management.calling import call

FILL = """
INSERT INTO {table} ({columns}, channel, key, task, payload, metadata)
SELECT {values}, 'default', '', 'tests.task',
       jsonb_build_object('args', '[]'::jsonb, 'kwargs',
                          jsonb_build_object('order', n, 'kind', n % 10, 'note', 'a note')),
       jsonb_build_object('tenant', 'tenant ' || n % 1000)
FROM generate_series(1, {count}) n
"""
LIVE = {"table": "pgqueue_message", "columns": "state, max_attempts", "values": "'ready', 5"}
ENDED = {
    "table": "pgqueue_history",
    "columns": "id, priority, run_at, attempt, failures, lost, max_attempts, ordered, errors, "
    "created_at, finished_at, outcome",
    # Rows of two days: of two partitions.
    "values": "n, 0, now(), 1, 0, 0, 5, false, '[]', now(), now() - n % 2 * interval '1 day', "
    "'succeeded'",
}


@pytest.fixture
def _index(transactional_db: None) -> Iterator[None]:
    with indexed_for_search():
        yield


@pytest.fixture
def _no_index(transactional_db: None) -> Iterator[None]:
    yield
    change_search_index(forwards=False)


def fill(queue: Connection, count: int, **where: str) -> None:
    queue.execute(FILL.format(count=count, **where).encode())


def found(text: str, **chosen: str) -> bulk.FoundMessages:
    return bulk.find_messages(bulk.Filter(match=text, **chosen), seconds=0)


def states() -> dict[str, bool]:
    with connection.cursor() as cursor:
        cursor.execute(search_index.SQL["states"])
        return dict(cursor.fetchall())


@pytest.mark.usefixtures("_index")
class TestASearch:
    @pytest.fixture(autouse=True)
    def reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searching, "REACH", 4)

    @pytest.mark.parametrize("text", ["args.order=1", "args.order.id=7", "meta.a=b", "tag=x"])
    def test_looks_through_all_live_messages(self, queue: Connection, text: str) -> None:
        payload = {"args": [], "kwargs": {"order": 1 if text.endswith("1") else {"id": 7}}}
        oldest = insert(
            queue, payload=json.dumps(payload), metadata='{"a": "b", "tags": ["x", "y"]}'
        )
        fill(queue, 50, **LIVE)
        queue.execute("UPDATE pgqueue_message SET payload = '{}' WHERE id > %s", [oldest])

        answer = found(text)

        assert (answer.ids, answer.is_all, answer.back_to) == ([oldest], True, None)

    @pytest.mark.parametrize("state", ["dead", "ready", "scheduled"])
    def test_of_a_state_looks_through_all_messages(self, queue: Connection, state: str) -> None:
        metadata = '{"tenant": "a"}'
        ids = [insert(queue, metadata=metadata, state=each) for each in ("dead", "ready") * 3]
        late = datetime.now(UTC) + timedelta(days=1)
        ids += [insert(queue, metadata=metadata, state="scheduled", run_at=late) for _ in range(3)]
        fill(queue, 50, **LIVE)
        wanted = bulk.Filter(match="meta.tenant=a", state=state).wanted()

        seen = [
            id
            for listing in everything(Message.objects.all(), wanted)
            for stretch in listing.stretches()
            for id in stretch.ids
        ]

        rows = Message.objects.filter(pk__in=ids, state=state).order_by("-pk")
        assert seen == list(rows.values_list("pk", flat=True))
        assert len(seen) == 3

    def test_of_ended_messages_looks_through_all_partitions(self, queue: Connection) -> None:
        fill(queue, 100, **ENDED)

        said = call("pgqueue_list", "--state=ended", "--match=args.order=7", "--format=json")

        assert ([each["id"] for each in said.objects], said.err) == ([7], "")

    def test_comes_in_stretches_that_have_each_message_once(self, queue: Connection) -> None:
        fill(queue, 100, **ENDED)
        wanted = {**searching.matching("args.kind=3"), "outcome": "succeeded"}
        descending = NEWEST_FIRST.listing(History.objects.all(), wanted)
        ascending = index.Index(order=("id",), wording="").listing(History.objects.all(), wanted)

        stretches = [list(each.stretches()) for each in (descending, ascending)]

        down, up = ([id for each in found for id in each.ids] for found in stretches)
        assert up == list(range(3, 100, 10)) == down[::-1]
        assert [len(each.ids) for each in stretches[0]] == [4, 4, 2]
        assert json.loads(stretches[0][0].next or "") == [down[4]]

    def test_for_a_value_of_too_many_rows_says_which_stretch_it_has_looked_through(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "STRETCH", 5)
        fill(queue, 100, **LIVE)

        common, rare = found("args.kind=9"), found("args.order=3")

        assert (len(common.ids), common.is_all, common.looked_at) == (1, False, 4)
        assert common.back_to is not None
        assert (len(rare.ids), rare.is_all) == (1, True)

    def test_that_takes_too_long_is_given_up(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        insert(queue)
        monkeypatch.setattr(index, "INDEX_PATIENCE", timedelta(milliseconds=20))
        slow = Comparison("{} IS NOT NULL OR %s", True, indexed=("pg_sleep(%s) IS NULL", 30))
        listing = NEWEST_FIRST.listing(Message.objects.all(), {"metadata": slow})

        stretch = listing.stretch()

        assert listing.candidates is None
        assert len(stretch.ids) == 1
        assert one(connection.connection, "SHOW statement_timeout") == ("0",)

    def test_for_a_part_of_an_error_looks_through_a_stretch(self, queue: Connection) -> None:
        fill(queue, 10, **LIVE)

        assert found("error=no such order").is_all is False

    def test_finds_no_encrypted_arguments(self, queue: Connection) -> None:
        encrypted_jobs.keep.enqueue("4242")

        answer = found("args.0=4242")

        assert (answer.ids, answer.is_all) == ([], True)

    def test_finds_what_is_stored_and_not_what_was(self, queue: Connection) -> None:
        id = send("mail", {"a": 1}, metadata={"step": "one"})
        Message.objects.filter(pk=id).update(metadata={"step": "two"})

        assert (found("meta.step=one").ids, found("meta.step=two").ids) == ([], [id])


@pytest.mark.usefixtures("_no_index")
class TestTheIndex:
    @pytest.mark.parametrize("atomic", [True, False])
    def test_is_made_and_dropped(self, queue: Connection, atomic: bool) -> None:
        fill(queue, 10, **ENDED)

        change_search_index(forwards=True, atomic=atomic)
        made = states()
        change_search_index(forwards=False, atomic=atomic)

        assert made == {"pgqueue_message_search": True, "pgqueue_history_search": True}
        assert states() == {}
        assert leftover(queue) == 0

    def test_is_a_part_of_new_partitions(self, queue: Connection) -> None:
        change_search_index(forwards=True)
        before = leftover(queue)

        make_partition(
            queue,
            "public",
            "pgqueue_history",
            "pgqueue_history_20990101",
            first="2099-01-01",
            end="2099-01-02",
        )
        after = leftover(queue)
        queue.execute("DROP TABLE pgqueue_history_20990101")

        assert after == before + 1

    def test_that_was_interrupted_is_named_by_the_check_and_not_used(
        self, queue: Connection
    ) -> None:
        queue.execute(search_index.SQL["on_history"])
        fill(queue, 10, **ENDED)
        listing = NEWEST_FIRST.listing(History.objects.all(), searching.matching("args.order=1"))

        warnings = checks.run_checks(tags=[checks.Tags.database], databases=["default"])

        assert [(each.id, "pgqueue_history_search" in each.msg) for each in warnings] == [
            ("pgqueue.W002", True)
        ]
        assert listing.candidates is None
        assert listing.stretch().ids == [1]

    @pytest.mark.parametrize("atomic", [True, False])
    @pytest.mark.parametrize("forwards", [True, False])
    def test_that_was_interrupted_is_completed_or_dropped(
        self, queue: Connection, atomic: bool, forwards: bool
    ) -> None:
        queue.execute(search_index.SQL["on_history"])
        today = f"{datetime.now(UTC):%Y%m%d}"
        queue.execute(
            f"CREATE INDEX pgqueue_history_{today}_search ON pgqueue_history_{today} (id)".encode()
        )
        queue.execute("CREATE INDEX pgqueue_message_search ON pgqueue_message (id)")
        queue.execute(
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = 'pgqueue_message_search'::regclass"
        )

        change_search_index(forwards=forwards, atomic=atomic)

        wanted = {"pgqueue_message_search": True, "pgqueue_history_search": True}
        assert states() == (wanted if forwards else {})
        assert leftover(queue) == (partitions(queue) + 2 if forwards else 0)

    def test_is_named_by_no_check_if_it_is_complete(self, queue: Connection) -> None:
        change_search_index(forwards=True)

        assert checks.run_checks(tags=[checks.Tags.database], databases=["default"]) == []

    def test_is_written_into_a_migration(self) -> None:
        code, imports = OperationWriter(IndexSearch(), indentation=0).serialize()

        assert code.splitlines() == ["pgqueue.operations.IndexSearch(", "),"]
        assert imports == {"import pgqueue.operations"}
        assert IndexSearch().migration_name_fragment == "index_search"
        assert "arguments, metadata and tags" in IndexSearch().describe()


def leftover(queue: Connection) -> int:
    """Return the number of GIN indexes, with the one of the whole history."""
    [count] = one(
        queue,
        "SELECT count(*) FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam "
        "WHERE x.indrelid::regclass::text ~ '^pgqueue_(message|history)' "
        "AND (a.amname = 'gin' OR c.relname ~ '_search$')",
    )
    return int(count)


def partitions(queue: Connection) -> int:
    [count] = one(
        queue, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgqueue_history'::regclass"
    )
    return int(count)


@pytest.mark.slow
@pytest.mark.usefixtures("_index")
class TestThePlan:
    """The rows that PostgreSQL reads in a table of 100 000 rows."""

    @pytest.mark.parametrize("statistics", ["good", "of an empty table", "none"])
    @pytest.mark.parametrize("table", [LIVE, ENDED], ids=["live", "ended"])
    def test_reads_only_the_rows_that_the_index_finds(
        self, queue: Connection, table: dict[str, str], statistics: str
    ) -> None:
        analyze = f"ANALYZE {table['table']}".encode()
        if statistics == "of an empty table":
            queue.execute(analyze)
        fill(queue, 100_000, **table)
        if statistics == "good":
            queue.execute(analyze)
        rows = (Message if table is LIVE else History).objects.all()

        for text, number in (
            *(("args.order=4711", 1), ("args.kind.order=1", 0)),
            *(("meta.tenant=tenant 7", 100), ("tag=import", 0)),
        ):
            listing = NEWEST_FIRST.listing(rows, searching.matching(text))
            stretch, plans = explained(listing.stretch)

            assert (len(stretch.ids), stretch.is_all) == (number, True)
            assert plans
            for plan in plans:
                assert most_rows(plan) <= number, text
                assert "Seq Scan" not in nodes(plan), text


def explained(do: Callable[[], Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return a result, and the plans of the statements that read messages for it."""
    plans: list[dict[str, Any]] = []

    def explain(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
        if "pgqueue_message" in text or "pgqueue_history" in text:
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json, TIMING off) {text}", params)
                plans.append(cursor.fetchone()[0][0]["Plan"])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        return do(), plans


def most_rows(node: dict[str, Any]) -> float:
    own = 0.0
    if node.get("Relation Name"):
        own = node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
    return max([own, *map(most_rows, node.get("Plans", []))])


def nodes(node: dict[str, Any]) -> set[str]:
    return {node["Node Type"]}.union(*map(nodes, node.get("Plans", [])))
