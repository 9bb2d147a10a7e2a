"""A stream of history leaves out no row and repeats none, in whatever order they commit."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import StreamingQueryException

from pgqueue.arrow import streaming
from pgqueue.arrow.options import stream_options
from pgqueue.arrow.streaming import Offset
from pgqueue.database.connections import connect as open_connection
from pgqueue.engine import identity, partitions, retention
from pgqueue.engine.values import Position
from pgqueue.models import LogFloor
from pgqueue.spark import DataLoss, InvalidOption, OtherCluster
from pgqueue.states import Outcome
from tests.factories import Connection, ended, one, past
from tests.spark.conftest import wait_for_horizon

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = {"startingOffsets": "earliest"}


class Stream:
    """A query that follows history, as Spark drives it, without Spark."""

    def __init__(self, url: str, **given: str) -> None:
        self.options = stream_options({"url": url, "table": "history", **given})
        self.offset = streaming.first(self.options)
        self.batches: list[list[dict[str, Any]]] = []

    def step(
        self, limit: int | None = None, until: Position | None = None, *, is_stalled: bool = False
    ) -> list[int]:
        """Read the next batch; return the ids."""
        if not is_stalled:
            wait_for_horizon(self.options.url)
        start = self.offset
        end = streaming.next_after(
            start, self.options, limit=limit or self.options.limit, until=until
        )
        rows = [
            row
            for part in streaming.divide(self.options, start, end)
            for each in streaming.read(self.options, start, part)
            for row in each.to_pylist()
        ]
        self.offset = Offset.from_json(end.as_json())
        if end != start:
            self.batches.append(rows)
        return [row["id"] for row in rows]

    def rest(self) -> list[int]:
        """Read all that there is, batch by batch."""
        found = []
        while True:
            before = self.offset
            found += self.step()
            if self.offset == before:
                return found


def all_ids(connection: Connection) -> list[int]:
    rows = connection.execute("SELECT id FROM pgqueue_history ORDER BY txid, id").fetchall()
    return [pk for (pk,) in rows]


class TestOrder:
    def test_what_began_first_and_commits_last_is_not_passed_over(
        self, url: str, connection: Connection
    ) -> None:
        stream, naive = Stream(url, **START), 0
        with psycopg.connect(url) as slow:
            ended(slow)
            ended(connection)
            newest = one(connection, "SELECT max(id) FROM pgqueue_history")[0]
            naive = newest  # What a reader of `id > last` would remember.
            assert stream.step(is_stalled=True) == []
            slow.commit()

        assert stream.step() == all_ids(connection)
        later = connection.execute("SELECT count(*) FROM pgqueue_history WHERE id > %s", [naive])
        assert later.fetchone() == (0,)

    def test_rollbacks_and_savepoints_change_nothing(
        self, url: str, connection: Connection
    ) -> None:
        stream = Stream(url, **START)
        with psycopg.connect(url) as other:
            with other.transaction(), other.transaction():
                ended(other, 2)
            with other.transaction():
                ended(other)
                raise psycopg.Rollback
            other.commit()

        assert stream.step() == all_ids(connection)
        assert len(stream.batches[0]) == 2

    @pytest.mark.slow
    def test_of_many_writers_at_once_each_row_comes_once(
        self, url: str, connection: Connection
    ) -> None:
        stream, naive, found = Stream(url, **START), 0, 0
        writers = [threading.Thread(target=write, args=(url, seed)) for seed in range(6)]
        for each in writers:
            each.start()
        seen: list[int] = []
        while any(each.is_alive() for each in writers):
            seen += stream.step(is_stalled=True)
            rows = connection.execute("SELECT id FROM pgqueue_history WHERE id > %s", [naive])
            new = [pk for (pk,) in rows]
            found, naive = found + len(new), max([naive, *new])
        seen += stream.rest()

        assert sorted(seen) == sorted(all_ids(connection))
        # The race was there: the reader of ids lost some to it.
        assert found < len(seen)


def write(url: str, seed: int) -> None:
    """Write history in transactions of all lengths, some of which are rolled back."""
    chance = random.Random(seed)
    with psycopg.connect(url) as connection:
        for _ in range(60):
            for _ in range(chance.randint(1, 4)):
                ended(connection, chance.randint(1, 3))
                connection.execute("SELECT pg_sleep(%s)", [chance.random() / 200])
            if chance.random() < 0.2:
                connection.rollback()
            connection.commit()


class TestABatch:
    def test_has_no_more_rows_than_the_limit_though_one_transaction_has(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 12_000)

        stream = Stream(url, **START, maxOffsetsPerTrigger="2000", columns="id")

        assert sorted(stream.rest()) == sorted(all_ids(connection))
        assert [len(each) for each in stream.batches] == [2000] * 6

    def test_in_partitions_has_each_row_once(self, url: str, connection: Connection) -> None:
        ended(connection, 100)
        wait_for_horizon(url)
        stream = Stream(url, **START, minPartitions="7")
        end = streaming.next_after(stream.offset, stream.options, limit=None)

        parts = streaming.divide(stream.options, stream.offset, end)

        sizes = [
            sum(each.num_rows for each in streaming.read(stream.options, stream.offset, part))
            for part in parts
        ]
        assert len(parts) == 7
        assert sum(sizes) == 100
        assert max(sizes) - min(sizes) <= 15
        assert all(a.last == b.after for a, b in pairwise(parts))

    def test_read_again_is_the_same_whatever_has_come_since(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 5)
        stream = Stream(url, **START)
        start = stream.offset
        first = stream.step()
        ended(connection, 5)

        [part] = streaming.divide(stream.options, start, stream.offset)
        again = [
            pk
            for each in streaming.read(stream.options, start, part)
            for pk in each["id"].to_pylist()
        ]

        assert again == first
        assert len(stream.step()) == 5

    def test_ends_where_the_query_does(self, url: str, connection: Connection) -> None:
        ended(connection, 5)
        stream = Stream(url, **START)
        wait_for_horizon(url)
        until = streaming.newest(stream.options)
        ended(connection, 5)

        assert len(stream.step(until=until)) == 5
        assert stream.step(until=until) == []

    def test_selects_what_the_options_say(self, url: str, connection: Connection) -> None:
        for channel in ("a", "b"):
            ended(connection, 3, channel=channel)

        stream = Stream(url, **START, channel="b", columns="id,channel")

        assert len(stream.rest()) == 3
        assert {row["channel"] for row in stream.batches[0]} == {"b"}


class TestTheStart:
    def test_is_what_ends_from_now_on_by_default(self, url: str, connection: Connection) -> None:
        ended(connection, 3)
        wait_for_horizon(url)
        stream = Stream(url)
        ended(connection, 2)

        assert stream.step() == all_ids(connection)[3:]

    def test_may_be_a_time(self, url: str, connection: Connection) -> None:
        now = datetime.now(UTC)
        for ago in (3, 2, 1):
            ended(connection, at=now - timedelta(minutes=ago))
        wait_for_horizon(url)

        stream = Stream(url, startingTimestamp=str(now - timedelta(minutes=2)))
        later = Stream(url, startingTimestamp=str(now + timedelta(minutes=2)))

        assert stream.step() == all_ids(connection)[1:]
        assert later.step() == []

    def test_that_is_a_time_has_what_ends_while_it_is_looked_up(
        self, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        last = streaming._last

        def later(given: Connection) -> Position:
            ended(connection)
            wait_for_horizon(url)
            return last(given)

        ended(connection)
        wait_for_horizon(url)
        monkeypatch.setattr(streaming, "_last", later)
        stream = Stream(url, startingTimestamp=str(datetime.now(UTC)))
        monkeypatch.undo()
        ended(connection)

        assert stream.step() == all_ids(connection)[1:]

    def test_may_be_what_was_read_last(self, url: str, connection: Connection) -> None:
        ended(connection, 5)
        query = "SELECT txid, id FROM pgqueue_history ORDER BY 1, 2 LIMIT 1 OFFSET 2"
        txid, pk = one(connection, query)

        stream = Stream(url, startingOffsets=f'{{"txid": {txid}, "id": {pk}}}')

        assert stream.step() == all_ids(connection)[3:]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"startingOffsets": "first"}, "startingOffsets is 'first'; it must be earliest"),
            ({"startingOffsets": '{"txid": 1}'}, "startingOffsets is "),
            ({"startingOffsets": '{"txid": -1, "id": 0}'}, "startingOffsets is "),
            ({"startingOffsets": '{"txid": true, "id": 0}'}, "startingOffsets is "),
            ({"startingOffsets": "latest", "startingTimestamp": "2026-01-01"}, "not both"),
            ({"startingTimestamp": "now"}, "startingTimestamp is 'now'; it must be a time"),
            ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
            ({"minPartitions": "65"}, "minPartitions is '65'; .* from 1 to 64"),
            ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no'; it must be true or false"),
            ({"since": "2026-01-01"}, "since is an option of read, not of readStream"),
            ({"table": "messages"}, "messages changes in place.* There is history"),
        ],
    )
    def test_and_what_else_is_wrong_is_named(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            stream_options({"table": "history", **given})


class TestLoss:
    @pytest.fixture
    def behind(self, url: str, connection: Connection) -> Iterator[Stream]:
        """A stream that has read one of two rows, of days that are over."""
        names = [past(connection, 50), past(connection, 49)]
        stream = Stream(url, **START)
        stream.step(limit=1)
        yield stream
        for name in names:
            connection.execute(f"DROP TABLE IF EXISTS {name}")

    def test_of_days_that_were_dropped_is_an_error(self, behind: Stream) -> None:
        assert behind.step(limit=1)
        behind.offset = behind.offset._replace(
            last=behind.offset.last._replace(txid=behind.offset.last.txid - 1)
        )

        keeper = open_connection("default", name="test")
        assert partitions.drop(keeper, dict.fromkeys(Outcome.values, timedelta(days=30)))
        keeper.close()

        with pytest.raises(DataLoss, match="removed history up to transaction .* new checkpoint"):
            behind.step()

    def test_of_rows_that_were_purged_is_an_error(
        self, behind: Stream, connection: Connection
    ) -> None:
        rules = {**dict.fromkeys(Outcome.values, timedelta(days=90)), "succeeded": timedelta(30)}
        keeper = open_connection("default", name="test")
        for window in retention.windows(keeper, rules):
            retention.purge(keeper, window, rules)
        keeper.close()
        assert all_ids(connection) == []

        with pytest.raises(DataLoss):
            behind.step()

    def test_between_plan_and_read_is_an_error(self, behind: Stream) -> None:
        start = behind.offset
        end = streaming.next_after(start, behind.options, limit=None)
        [part] = streaming.divide(behind.options, start, end)
        LogFloor.objects.create(log="history", position=end.last.txid)

        with pytest.raises(DataLoss):
            list(streaming.read(behind.options, start, part))

    def test_is_seen_whatever_isolation_the_database_has(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 2)
        strict = make_conninfo(url, options="-c default_transaction_isolation=serializable")
        stream = Stream(strict, **START)
        stream.step()
        start, before = stream.offset, stream.offset._replace(last=Position(1, 1))
        part = streaming.Range(before.last, start.last)
        reading = streaming.read(stream.options, before, part)
        assert next(reading).num_rows == 2

        LogFloor.objects.create(log="history", position=start.last.txid)

        with pytest.raises(DataLoss):
            list(reading)

    def test_is_none_where_all_was_read(self, behind: Stream, connection: Connection) -> None:
        behind.rest()
        LogFloor.objects.create(log="history", position=behind.offset.last.txid)
        ended(connection)

        assert len(behind.step()) == 1

    def test_of_a_start_below_the_floor_is_an_error(self, url: str, behind: Stream) -> None:
        LogFloor.objects.create(log="history", position=behind.offset.last.txid + 1)
        start = json.dumps(behind.offset.last._asdict())

        with pytest.raises(DataLoss):
            Stream(url, startingOffsets=start).step()

        assert Stream(url, startingOffsets=start, failOnDataLoss="false").step()
        assert len(Stream(url, **START).step()) == 2

    def test_amid_a_transaction_is_an_error(self, url: str, connection: Connection) -> None:
        ended(connection, 3)
        stream = Stream(url, **START)
        stream.step(limit=2)
        LogFloor.objects.create(log="history", position=stream.offset.last.txid)

        with pytest.raises(DataLoss):
            stream.step()
        named = json.dumps(stream.offset.last._asdict())
        with pytest.raises(DataLoss):
            Stream(url, startingOffsets=named).step()

    def test_may_be_ignored(self, url: str, behind: Stream) -> None:
        LogFloor.objects.create(log="history", position=behind.offset.last.txid + 1)
        options = stream_options({"url": url, "table": "history", "failOnDataLoss": "false"})

        end = streaming.next_after(behind.offset, options, limit=None)

        assert end.last > behind.offset.last


class TestAnotherCluster:
    def test_is_refused(self, url: str) -> None:
        stream = Stream(url)
        stream.offset = stream.offset._replace(database="1")

        with pytest.raises(OtherCluster, match="follows the database 1, and this is"):
            stream.step()

    def test_restored_to_an_earlier_time_is_refused(self, url: str) -> None:
        stream = Stream(url)
        stream.offset = stream.offset._replace(last=Position(2**62, 1))

        with pytest.raises(OtherCluster, match="restored to an earlier time"):
            stream.step()

    def test_restored_to_before_a_batch_that_was_begun_is_refused(self, url: str) -> None:
        stream = Stream(url)
        part = streaming.Range(stream.offset.last, Position(2**62, 1))

        with pytest.raises(OtherCluster, match="restored to an earlier time"):
            list(streaming.read(stream.options, stream.offset, part))

    def test_restored_to_before_a_removal_is_refused(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection)
        [floor] = one(connection, "SELECT max(txid) FROM pgqueue_history")
        LogFloor.objects.create(log="history", position=floor)
        stream = Stream(url, **START)
        LogFloor.objects.update(position=floor - 1)
        ended(connection)

        # Otherwise it would miss that retention removes the restored rows again.
        with pytest.raises(OtherCluster, match="restored to an earlier time"):
            stream.step()

    def test_with_the_same_number_is_refused(self, url: str, connection: Connection) -> None:
        ended(connection, 3)
        stream = Stream(url, **START)
        identity.renew(connection)

        with pytest.raises(OtherCluster, match="another one, or one that was restored"):
            stream.step()

    @pytest.mark.parametrize("limit", [None, 2])
    def test_restored_that_has_caught_up_is_refused(
        self, limit: int | None, url: str, connection: Connection
    ) -> None:
        ended(connection, 3)
        stream = Stream(url, **START)
        start = stream.offset
        read = stream.step(limit)
        connection.execute("DELETE FROM pgqueue_history WHERE id >= %s", [read[-1]])
        ended(connection, 9)
        [part] = streaming.divide(stream.options, start, stream.offset)

        with pytest.raises(OtherCluster, match=f"has read message {read[-1]} .* not ended here"):
            stream.step()
        # As it was begun before the restore, and is read again.
        with pytest.raises(OtherCluster, match=f"has read message {read[-1]} .* not ended here"):
            list(streaming.read(stream.options, start, part))

    def test_whose_row_ended_at_another_time_is_refused(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 3)
        stream = Stream(url, **START)
        stream.step()
        connection.execute("UPDATE pgqueue_history SET finished_at = finished_at + interval '1us'")

        with pytest.raises(OtherCluster, match="not ended here, or at another time"):
            stream.step()

    def test_is_none_where_retention_has_removed_what_was_read(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 3)
        stream = Stream(url, **START)
        stream.step()
        connection.execute("DELETE FROM pgqueue_history")
        LogFloor.objects.create(log="history", position=stream.offset.last.txid)
        ended(connection)

        assert len(stream.step()) == 1

    def test_whose_history_was_restored_here_says_how_to_mend_it(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 3)
        connection.execute("UPDATE pgqueue_history SET txid = txid + 1000000000")

        with pytest.raises(OtherCluster, match=r"UPDATE pgqueue_history\s+SET txid") as raised:
            Stream(url, **START)
        connection.execute(str(raised.value).partition("cluster's: ")[2])

        assert len(Stream(url, **START).step()) == 3

    def test_whose_floor_was_restored_here_hides_no_loss(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 3)
        LogFloor.objects.create(log="history", position=2**40)
        with pytest.raises(OtherCluster, match="restored from another") as raised:
            Stream(url, **START)
        connection.execute(str(raised.value).partition("cluster's: ")[2])
        behind = Stream(url, **START)
        behind.step(1)

        ended(connection)
        connection.execute(
            "UPDATE pgqueue_log_floor SET position = pg_current_xact_id()::text::bigint"
        )

        with pytest.raises(DataLoss):
            behind.step()


class TestInSpark:
    def test_it_follows_history_over_restarts(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        batches: list[list[int]] = []

        def follow() -> None:
            query = (
                spark.readStream.format("pgqueue")
                .options(url=url, table="history", columns="id", **START)
                .options(maxOffsetsPerTrigger=4, minPartitions=2)
                .load()
                .writeStream.foreachBatch(lambda frame, number: batches.append(ids_of(frame)))
                .option("checkpointLocation", str(tmp_path))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        ended(connection, 10)
        wait_for_horizon(url)
        follow()
        ended(connection, 3)
        wait_for_horizon(url)
        follow()

        assert [len(each) for each in batches] == [4, 4, 2, 3]
        assert sorted(pk for each in batches for pk in each) == sorted(all_ids(connection))

        ended(connection)
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) "
            "VALUES ('history', pg_current_xact_id()::text::bigint)"
        )
        with pytest.raises(StreamingQueryException, match="Retention has removed history"):
            follow()


def ids_of(frame: DataFrame) -> list[int]:
    return [row.id for row in frame.collect()]
