"""What is read is what PostgreSQL has: every column, every row once, as of one moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from pgqueue.arrow import copying, holding
from pgqueue.arrow.options import read_options
from pgqueue.arrow.planning import Part, Stretch, divided, plan
from pgqueue.arrow.reading import batches, prepare, query
from pgqueue.arrow.tables import (
    DEPENDENCY,
    FIRST_TIME,
    HISTORY,
    LAST_TIME,
    STEP,
    TABLES,
    Column,
    Type,
)
from pgqueue.engine import flows, steps
from pgqueue.engine.steps import StoredStep
from pgqueue.spark import SnapshotGone, SparkError, TableChanged
from tests.eventually import eventually
from tests.factories import Connection, bury, ended, enqueue, one, register, run, schedule
from tests.spark.conftest import Read
from tests.spark.log import publish

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
SAME = {"workers": "worker", "events": "event", "flows": "flow", "dependencies": "dependency"}
OF_FLOWS = {"flow_name", "flow_created_at", "flow_ended_at", "freed_by", "freed_at"}
AWKWARD = [
    "", " ", "a\nb", "a\r\nb", "\n", '"', '""', "'", ",", "\\", "\\.", "\\N", "NULL", "null", "NaN",
    "ünï", "日本", "🐘", "\x01", "\t", "\u2028", "%s", "{}", "$1",
]  # fmt: skip


@pytest.fixture
def past_days(connection: Connection) -> Iterator[list[str]]:
    """Three days of history before yesterday, 1 000 messages each."""
    names = []
    for ago in (4, 3, 2):
        day = (datetime.now(UTC) - ago * DAY).date()
        name = f"pgqueue_history_{day:%Y%m%d}"
        connection.execute(
            f"CREATE TABLE {name} PARTITION OF pgqueue_history "
            f"FOR VALUES FROM ('{day} 00:00Z') TO ('{day + DAY} 00:00Z')"
        )
        for hour in range(10):
            at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
            ended(connection, 100, at=at, channel=f"c{hour}")
        names.append(name)
    yield names
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def parts(url: str, table: str = "history", **given: str) -> list[tuple[Any, Part]]:
    options = read_options({"url": url, "table": table, **given})
    return [(options, part) for part in plan(options)]


def ids(parts: list[tuple[Any, Part]]) -> list[int]:
    return [
        row["id"]
        for options, part in parts
        for each in batches(options, part)
        for row in each.to_pylist()
    ]


STEPS = """{"signals": [], "steps": [
    {"name": "wait:go", "number": 1, "kind": "signal", "state": "done", "result": {"payload": 1},
     "started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-08T00:00:00+00:00"},
    {"name": "now", "number": 2, "kind": "value", "state": "done", "result": 1}]}"""
LIVE_STEP = """
INSERT INTO pgqueue_step (message_id, name, number, kind, state, attempt, tries, started_at)
SELECT min(id), 'night', 1, 'sleep', 'waiting', 1, 1, now() FROM pgqueue_message"""


class TestColumns:
    @pytest.mark.parametrize("name", TABLES)
    def test_of_every_table_are_those_of_postgresql(
        self, name: str, read: Read, connection: Connection
    ) -> None:
        bury(connection)
        run(connection)
        ended(connection)
        register(connection, channels=["a,b", 'c"'])
        publish(connection)
        flows.begin(connection, 1, "import")
        flows.depend(connection, 1, [(3, 1), (3, 2)])
        connection.execute(
            "UPDATE pgqueue_history SET started_at = finished_at, steps = %s", [STEPS]
        )
        connection.execute(LIVE_STEP)

        rows = read(name)

        assert rows.num_rows == {"attempts": 2, "dependencies": 2, "steps": 3}.get(name, 1)
        assert rows.column_names == TABLES[name].names

    def test_are_all_those_of_the_tables(self, connection: Connection) -> None:
        query = "SELECT * FROM {} WHERE false"
        columns = {
            name: {each.name for each in connection.execute(query.format(name)).description or ()}
            for name in map("pgqueue_{}".format, (*SAME.values(), "message", "history"))
        }

        for name, of in SAME.items():
            assert set(TABLES[name].names) >= columns[f"pgqueue_{of}"]
        assert set(TABLES["history"].names) - columns["pgqueue_history"] == {
            *OF_FLOWS,
            "weight",
        }
        # What only tells the engine how to find them.
        assert columns["pgqueue_message"] - set(TABLES["messages"].names) == {
            "rank",
            "debounced",
            "lease_for",
        }

    def test_that_are_chosen_come_in_that_order(self, read: Read, connection: Connection) -> None:
        ended(connection, 3)

        assert read("history", columns="task, id").column_names == ["task", "id"]

    def test_that_are_all_null_are_rows_all_the_same(
        self, read: Read, connection: Connection
    ) -> None:
        ended(connection, 3)

        assert read("history", columns="dedupe_key").to_pylist() == 3 * [{"dedupe_key": None}]


class TestValues:
    def test_of_weights_are_numbers(self, read: Read, connection: Connection) -> None:
        for options in ('{"weight": 5}', '{"timeout": 1}', None):
            enqueue(connection, options=options)

        rows = read("messages", columns="weight").to_pylist()
        assert [row["weight"] for row in rows] == [5, 1, 1]

    def test_of_text_come_as_they_are(self, read: Read, connection: Connection) -> None:
        found = {}
        for number, text in enumerate(AWKWARD):
            enqueue(connection, key=text, priority=number)
        connection.execute("UPDATE pgqueue_message SET dedupe_key = key WHERE priority % 2 = 0")

        for row in read("messages", columns="priority,key,dedupe_key").to_pylist():
            found[row["priority"]] = row["key"], row["dedupe_key"]

        assert found == {
            number: (text, text if number % 2 == 0 else None) for number, text in enumerate(AWKWARD)
        }

    def test_of_times_come_in_utc_to_the_microsecond(
        self, read: Read, connection: Connection
    ) -> None:
        dbname = connection.info.dbname
        at = datetime(2026, 3, 29, 1, 30, 0, 123457, tzinfo=UTC)
        times = [f"'{at}'", "'infinity'", "'-infinity'", "'20000-01-01'", "'4000-01-01 BC'", "NULL"]
        row = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conname = 'pgqueue_message_times'"
        ).fetchone()
        assert row is not None
        # Such rows are older than the constraint.
        connection.execute("ALTER TABLE pgqueue_message DROP CONSTRAINT pgqueue_message_times")
        connection.execute(f"ALTER DATABASE {dbname} SET timezone = 'Asia/Kathmandu'")
        connection.execute(f"ALTER DATABASE {dbname} SET datestyle = 'German, DMY'")
        try:
            for number, time in enumerate(times):
                [pk] = enqueue(connection, priority=number)
                connection.execute(
                    f"UPDATE pgqueue_message SET expires_at = {time} WHERE id = {pk}"  # noqa: S608
                )
            rows = read("messages", columns="priority,expires_at").to_pylist()
        finally:
            connection.execute(f"ALTER DATABASE {dbname} RESET ALL")
            connection.execute("DELETE FROM pgqueue_message")
            connection.execute(
                f"ALTER TABLE pgqueue_message ADD CONSTRAINT pgqueue_message_times {row[0]}"
            )

        first, last = (datetime.fromisoformat(each.strip("'")) for each in (FIRST_TIME, LAST_TIME))
        assert {row["priority"]: row["expires_at"] for row in rows} == dict(
            enumerate([at, None, None, last, first, None])
        )

    def test_of_bytes_and_json_come_as_they_are(self, read: Read, connection: Connection) -> None:
        body = bytes(range(256))
        [pk] = enqueue(connection, payloads=['{"a": ["\\"", null, 1.50, "é"]}'])
        connection.execute("UPDATE pgqueue_message SET body = %s WHERE id = %s", [body, pk])
        enqueue(connection)

        first, second = read("messages", columns="payload,body").to_pylist()

        assert first == {"payload": '{"a": ["\\"", null, 1.50, "é"]}', "body": body}
        assert second["body"] is None

    def test_that_are_larger_than_a_block_come_whole(
        self, read: Read, connection: Connection
    ) -> None:
        text = "x" * 9_000_000
        enqueue(connection, payloads=[f'"{text}"'])
        enqueue(connection, 3)

        rows = read("messages", columns="id,payload").to_pylist()

        assert sorted(len(row["payload"]) for row in rows) == [2, 2, 2, len(text) + 2]


class TestATable:
    def test_of_messages_has_the_live_ones_and_of_dead_letters_the_dead(
        self, read: Read, connection: Connection
    ) -> None:
        live = [*enqueue(connection), *schedule(connection)]
        dead = bury(connection, channel="other")
        ended(connection)

        assert sorted(read("messages")["id"].to_pylist()) == live
        [letter] = read("deadletters").to_pylist()
        assert letter["id"] == dead[0]
        assert letter["error_class"] == "Oops"
        assert letter["died_at"] <= datetime.now(UTC)

    @pytest.mark.parametrize("table", ["steps", "dependencies"])
    def test_that_join_others_come_in_the_order_of_their_blocks(
        self, table: str, url: str, connection: Connection
    ) -> None:
        claims = [run(connection, key=key)[0] for key in "abc"]
        for each in (claims[2], claims[0], claims[1]):
            steps.store(connection, each, StoredStep("charge", 1, "step", result="7"))
        for flow_id in (3, 1, 2):
            flows.begin(connection, flow_id, "import")
            flows.depend(connection, flow_id, [(4, flow_id)])
        options = read_options({"url": url, "table": table})
        relation = {"steps": STEP, "dependencies": DEPENDENCY}[table]
        rows = SQL("(SELECT r.ctid, r.* FROM {} r)").format(Identifier(relation))

        with connection.transaction():
            prepare(connection, options)
            # Statistics may have the planner prefer any kind of a join.
            connection.execute("SET LOCAL enable_nestloop = off")
            connection.execute("SET LOCAL enable_hashjoin = off")
            found = connection.execute(query(options, relation, rows)).fetchall()

        places = [place for place, *_ in found]
        assert places == sorted(places)
        assert len(places) == 3

    def test_of_dead_letters_comes_in_the_order_of_its_blocks(
        self, read: Read, connection: Connection
    ) -> None:
        enqueue(connection, 2000, channel="busy")
        for channel in "cab":
            bury(connection, channel=channel)
        connection.execute("VACUUM ANALYZE pgqueue_message")

        for given in ({}, {"channel": '["a", "b", "c"]'}):
            rows = read("deadletters", columns="channel", **given)
            assert rows["channel"].to_pylist() == ["c", "a", "b"]

    def test_of_attempts_has_each_attempt_of_each_message(
        self, read: Read, connection: Connection
    ) -> None:
        errors = [
            {"attempt": 1, "worker": "w", "at": "2026-01-01T00:00:00Z", "class": "E"},
            {"attempt": 2, "at": "2026-01-02T00:00:00Z", "class": "pgqueue.exceptions.LeaseLost"},
        ]
        ended(connection, 1)
        ended(connection, 1, outcome="expired")
        connection.execute(
            "UPDATE pgqueue_history SET attempt = 3, started_at = finished_at, errors = %s::jsonb "
            "WHERE outcome = 'succeeded'",
            [json.dumps(errors)],
        )
        [dead] = bury(connection, channel="other")

        rows = read("attempts").to_pylist()

        history, letters = (
            [row for row in rows if (row["channel"] == "other") == is_dead]
            for is_dead in (False, True)
        )
        assert [(row["attempt"], row["outcome"], row["error_class"]) for row in history] == [
            (1, "failed", "E"),
            (2, "lost", "pgqueue.exceptions.LeaseLost"),
            (3, "succeeded", None),
        ]
        assert history[0]["ended_at"] == datetime(2026, 1, 1, tzinfo=UTC)
        assert [row["started_at"] is None for row in history] == [True, True, False]
        assert [(row["message_id"], row["outcome"]) for row in letters] == [(dead, "failed")]


class TestSelecting:
    @pytest.mark.parametrize("text", AWKWARD)
    def test_by_a_key_compares_it_as_it_is(
        self, text: str, read: Read, connection: Connection
    ) -> None:
        for each in ("other", text, "'; DROP TABLE pgqueue_message; --"):
            enqueue(connection, key=each)

        assert read("messages", key=text)["key"].to_pylist() == [text]

    def test_by_a_list_takes_each_of_it(self, read: Read, connection: Connection) -> None:
        for each in ("a", "b", "c"):
            enqueue(connection, channel=each)

        rows = read("messages", channel='["a", "c", "none"]')

        assert sorted(rows["channel"].to_pylist()) == ["a", "c"]

    def test_by_several_options_takes_what_fits_all(
        self, read: Read, connection: Connection
    ) -> None:
        for channel in ("a", "b"):
            ended(connection, channel=channel)
            ended(connection, channel=channel, outcome="expired")

        rows = read("history", channel="a", outcome="expired", task="tests.task")

        assert [(row["channel"], row["outcome"]) for row in rows.to_pylist()] == [("a", "expired")]
        assert read("history", task="another").num_rows == 0

    def test_by_state(self, read: Read, connection: Connection) -> None:
        enqueue(connection)
        [pk] = schedule(connection)

        assert read("messages", state="scheduled")["id"].to_pylist() == [pk]

    @pytest.mark.parametrize("count", ["1", "5"])
    def test_by_time_takes_since_and_leaves_out_until(
        self, count: str, past_days: list[str], read: Read, connection: Connection
    ) -> None:
        since = (datetime.now(UTC) - 3 * DAY).replace(hour=8, minute=0, second=0, microsecond=0)
        until = (since + DAY).replace(hour=2)

        rows = read("history", since=str(since), until=str(until), numPartitions=count)

        expected = one(
            connection,
            "SELECT count(*), min(finished_at), max(finished_at) FROM pgqueue_history "
            "WHERE finished_at >= %s AND finished_at < %s",
            since,
            until,
        )
        times = rows["finished_at"].to_pylist()
        assert (len(times), min(times), max(times)) == expected
        assert len(times) == 400

    def test_by_time_reads_no_other_day_and_only_the_blocks_that_are_needed(
        self, past_days: list[str], url: str
    ) -> None:
        day = (datetime.now(UTC) - 3 * DAY).date()

        [(_, part)] = parts(url, since=f"{day}T08:00", until=str(day + DAY))
        [(_, whole)] = parts(url, since=str(day), until=str(day + DAY))

        [stretch], [all_of_it] = part.stretches, whole.stretches
        assert stretch.name == all_of_it.name == past_days[1]
        assert stretch.end == all_of_it.end
        assert stretch.first > all_of_it.first == 0


class TestPartitions:
    @pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
    def test_have_every_row_once(
        self, count: int, past_days: list[str], url: str, connection: Connection
    ) -> None:
        found = parts(url, numPartitions=str(count))

        every = [pk for (pk,) in connection.execute("SELECT id FROM pgqueue_history").fetchall()]
        assert sorted(ids(found)) == sorted(every)
        assert len(every) == 3000

    def test_are_even(self, past_days: list[str], url: str) -> None:
        yesterday = (datetime.now(UTC) - DAY).date()
        found = parts(url, numPartitions="4", until=str(yesterday))

        sizes = [sum(each.num_rows for each in batches(options, part)) for options, part in found]
        assert len(sizes) == 4
        assert max(sizes) < 1.25 * min(sizes)

    def test_divide_any_tables_evenly_and_leave_nothing_out(self) -> None:
        for blocks in ([1], [7, 1, 13], [100, 0, 3], [5] * 40, [2**31]):
            tables = [
                Stretch(HISTORY, "public", str(number), number, number, None, 0, count)
                for number, count in enumerate(blocks)
                if count
            ]
            for count in (1, 2, 3, 8, 64):
                divisions = divided(tables, count)

                total = sum(blocks)
                sizes = [sum((each.end or 0) - each.first for each in part) for part in divisions]
                assert sum(sizes) == total
                assert len(sizes) == min(count, total)
                assert max(sizes) - min(sizes) <= 1
                flat = [each for part in divisions for each in part]
                for before, after in pairwise(flat):
                    assert (
                        after.first == before.end
                        if after.name == before.name
                        else (after.first, before.end) == (0, blocks[int(before.name)])
                    )

    def test_of_an_empty_table_are_one(self, url: str, connection: Connection) -> None:
        connection.execute("TRUNCATE pgqueue_history")

        assert len(parts(url, numPartitions="5")) == 1
        assert ids(parts(url, "messages", numPartitions="5")) == []

    def test_of_history_are_as_many_as_it_is_large(
        self, past_days: list[str], url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert len(parts(url)) == 1
        monkeypatch.setattr("pgqueue.arrow.planning.BLOCKS", 20)
        assert 2 <= len(parts(url)) <= 8


@pytest.fixture
def _truncated(connection: Connection) -> None:
    """Begin with a table that has no blocks."""
    connection.execute("TRUNCATE pgqueue_message")


@pytest.mark.usefixtures("_truncated")
class TestOneMoment:
    def test_history_is_as_it_was_when_it_was_planned(
        self, past_days: list[str], url: str, connection: Connection
    ) -> None:
        with psycopg.connect(url) as other:
            ended(other, 5)  # Has its transaction's number before the plan, and commits after it.
            before = ids(parts(url))
            found = parts(url, numPartitions="3")
            other.commit()
        ended(connection, 5)

        assert sorted(ids(found)) == sorted(before)
        assert len(ids(parts(url))) == len(before) + 10

    def test_history_that_was_restored_from_another_cluster_is_read(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 2)
        connection.execute("UPDATE pgqueue_history SET txid = txid + 1000000000")

        assert len(ids(parts(url, numPartitions="2"))) == 2

    def test_what_changes_in_place_is_read_from_one_snapshot(
        self, url: str, connection: Connection
    ) -> None:
        before = sorted(enqueue(connection, 500))

        found = parts(url, "messages", numPartitions="3")
        connection.execute("UPDATE pgqueue_message SET priority = 1")
        connection.execute("DELETE FROM pgqueue_message WHERE id % 2 = 0")
        enqueue(connection, 100)

        assert len(found) == 3
        assert sorted(ids(found)) == before

    def test_a_snapshot_ends_when_it_was_not_read_for_long_and_says_so(
        self, url: str, connection: Connection
    ) -> None:
        enqueue(connection, 500)

        found = parts(url, "messages", numPartitions="3")
        eventually(lambda: not holders(connection))

        with pytest.raises(SnapshotGone):
            ids(found)

    def test_a_snapshot_is_held_while_a_partition_is_read(
        self, url: str, connection: Connection
    ) -> None:
        enqueue(connection, 500)
        [(options, first), *others] = parts(url, "messages", numPartitions="3")

        reading = batches(options, first)
        next(reading)
        with psycopg.connect(url) as clock:
            clock.execute("SELECT pg_sleep(3.5)")
        rest = ids(others)  # the last one may have blocks without rows
        reading.close()

        assert rest

    def test_a_server_that_exports_no_snapshot_says_what_to_do(self, url: str) -> None:
        with pytest.raises(SparkError, match="does not exist.* Set numPartitions to 1"):
            holding.hold(url + " dbname=nowhere", idle=1)


def holders(connection: Connection) -> list[Any]:
    return connection.execute(
        "SELECT pid FROM pg_stat_activity "
        "WHERE application_name = 'pgqueue spark snapshot' AND datname = current_database()"
    ).fetchall()


class TestATableThatChanged:
    def test_because_it_was_rewritten_is_an_error(
        self, past_days: list[str], url: str, connection: Connection
    ) -> None:
        found = parts(url)
        connection.execute(f"VACUUM FULL {past_days[1]}")

        with pytest.raises(TableChanged, match=f"{past_days[1]} was rewritten"):
            ids(found)

    def test_because_its_retention_was_over_is_an_error(
        self, past_days: list[str], url: str, connection: Connection
    ) -> None:
        found = parts(url)
        connection.execute(f"DROP TABLE {past_days[0]}")

        with pytest.raises(TableChanged, match=f"{past_days[0]} was dropped"):
            ids(found)


class TestACopy:
    COLUMNS = [Column("id", Type.BIGINT, "id")]

    def test_that_is_given_up_leaves_the_connection_usable(self, connection: Connection) -> None:
        # More than one block: the server is in the middle of it.
        rows = copying.read(
            connection, SQL("SELECT n, n FROM generate_series(1, 3000000) n"), self.COLUMNS
        )
        next(rows)
        rows.close()  # type: ignore[attr-defined]

        assert one(connection, "SELECT 7") == (7,)

    def test_that_fails_half_way_is_an_error_and_leaves_the_connection_usable(
        self, connection: Connection
    ) -> None:
        failing = SQL("SELECT n, 1 / (n - 900000) FROM generate_series(1, 3000000) n")
        with pytest.raises(psycopg.errors.DivisionByZero):
            list(copying.read(connection, failing, self.COLUMNS))

        assert one(connection, "SELECT 7") == (7,)

    def test_whose_server_vanishes_is_an_error(self, connection: Connection, url: str) -> None:
        rows = copying.read(
            connection, SQL("SELECT n, n FROM generate_series(1, 9000000) n"), self.COLUMNS
        )
        next(rows)
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])

        with pytest.raises(psycopg.OperationalError):
            list(rows)


def test_every_type_is_one_that_spark_and_arrow_know() -> None:
    assert {each.type for table in TABLES.values() for each in table.columns} <= set(Type)
    assert all(each.arrow is not None for each in Type)


@pytest.mark.usefixtures("_truncated")
def test_reading_needs_the_right_to_select_and_no_other(
    url: str, connection: Connection, request: pytest.FixtureRequest
) -> None:
    role = f"pgqueue_reader_{connection.info.backend_pid}"
    connection.execute(f"CREATE ROLE {role} LOGIN")
    connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    request.addfinalizer(lambda: _drop_role(url, role))
    ended(connection, 3)
    enqueue(connection, 500)

    for name in TABLES:
        count = "2" if name == "messages" else "1"
        found = parts(f"{url} user={role}", name, numPartitions=count)
        rows = sum(each.num_rows for options, part in found for each in batches(options, part))
        assert rows == {"history": 3, "messages": 500}.get(name, 0)


def _drop_role(url: str, role: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
