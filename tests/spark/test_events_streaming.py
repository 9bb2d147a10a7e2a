"""A stream of events follows their positions: it leaves out none, and repeats none."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import StreamingQueryException

from pgqueue.arrow import eventstream
from pgqueue.arrow.eventstream import Offset
from pgqueue.arrow.options import stream_options
from pgqueue.engine import identity
from pgqueue.spark import DataLoss, InvalidOption, OtherCluster
from tests.factories import Connection
from tests.spark.log import LOCK, positions, publish, raise_floor, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = {"startingOffsets": "earliest"}
MOMENT = datetime(2026, 11, 24, 10, tzinfo=UTC)


class Stream:
    """A query that follows the log, as Spark drives it, without Spark."""

    def __init__(self, url: str, **given: str) -> None:
        self.options = stream_options({"url": url, "table": "events", **given})
        self.offset = eventstream.first(self.options)
        self.batches: list[list[dict[str, Any]]] = []

    def step(self, until: int | None = None) -> list[int]:
        """Read the next batch; return the positions."""
        start = self.offset
        end = eventstream.next_after(start, self.options, limit=self.options.limit, until=until)
        rows = [
            row
            for part in eventstream.divide(self.options, start, end)
            for each in eventstream.read(self.options, start, part)
            for row in each.to_pylist()
        ]
        self.offset = Offset.from_json(end.as_json())
        if end != start:
            self.batches.append(rows)
        return [row["position"] for row in rows]

    def rest(self) -> list[int]:
        """Read all that there is, batch by batch."""
        found = []
        while True:
            before = self.offset
            found += self.step()
            if self.offset == before:
                return found


class TestOrder:
    def test_what_began_first_and_commits_last_is_not_passed_over(
        self, url: str, connection: Connection
    ) -> None:
        stream = Stream(url, **START, columns="position,key")
        with psycopg.connect(url) as slow:
            publish(slow, key="slow")
            publish(connection, key="fast")

            assert stream.step() == [1]
            slow.commit()

        assert stream.step() == [2]
        assert [row["key"] for batch in stream.batches for row in batch] == ["fast", "slow"]

    def test_of_many_writers_at_once_each_event_comes_once(
        self, url: str, connection: Connection
    ) -> None:
        stream = Stream(url, **START, columns="position,payload", maxOffsetsPerTrigger="100")
        writers = [threading.Thread(target=write, args=(url, seed)) for seed in range(6)]
        for each in writers:
            each.start()
        seen: list[int] = []
        while any(each.is_alive() for each in writers):
            seen += stream.step()
        seen += stream.rest()

        assert seen == positions(connection) == list(range(1, len(seen) + 1))
        assert len(seen) > 300


def write(url: str, seed: int) -> None:
    """Publish in transactions of all lengths, some of which are rolled back."""
    chance = random.Random(seed)
    with psycopg.connect(url) as connection:
        for _ in range(60):
            for _ in range(chance.randint(1, 4)):
                publish(connection, chance.randint(1, 3))
                connection.execute("SELECT pg_sleep(%s)", [chance.random() / 200])
            if chance.random() < 0.2:
                connection.rollback()
            connection.commit()


class TestABatch:
    def test_has_no_more_events_than_the_limit(self, url: str, connection: Connection) -> None:
        publish(connection, 12_000)

        stream = Stream(url, **START, maxOffsetsPerTrigger="5000", columns="position")

        assert stream.rest() == list(range(1, 12_001))
        assert [len(each) for each in stream.batches] == [5000, 5000, 2000]

    def test_in_partitions_has_each_event_once(self, url: str, connection: Connection) -> None:
        store(connection, 100)
        stream = Stream(url, **START, minPartitions="7")
        end = eventstream.next_after(stream.offset, stream.options, limit=None)

        parts = eventstream.divide(stream.options, stream.offset, end)

        assert (len(parts), parts[0].after, parts[-1].upto) == (7, 0, 100)
        assert all(a.upto == b.after for a, b in pairwise(parts))
        assert sorted(stream.step()) == list(range(1, 101))

    def test_is_not_delayed_by_another_session_that_gives_positions(
        self, url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def sleep(seconds: float) -> None:
            raise AssertionError("It waited.")

        store(connection, 2)
        stream = Stream(url, **START)
        publish(connection, 3)
        monkeypatch.setattr("pgqueue.engine.sequence.sleep", sleep)
        with psycopg.connect(url) as other:
            other.execute(LOCK)

            assert stream.step() == [1, 2]
        assert stream.step() == [3, 4, 5]

    def test_ends_where_the_query_does(self, url: str, connection: Connection) -> None:
        publish(connection, 5)
        stream = Stream(url, **START)
        until = eventstream.newest(stream.options)
        publish(connection, 5)

        assert len(stream.step(until=until)) == 5
        assert stream.step(until=until) == []

    def test_selects_what_the_options_say(self, url: str, connection: Connection) -> None:
        for topic in ("order.paid", "user.new", "order.sent"):
            publish(connection, 3, topic=topic)

        stream = Stream(url, **START, topic="order.*", maxOffsetsPerTrigger="3")

        assert stream.rest() == [1, 2, 3, 7, 8, 9]
        assert [len(each) for each in stream.batches] == [3, 0, 3]


class TestTheStart:
    def test_is_what_is_published_from_now_on_by_default(
        self, url: str, connection: Connection
    ) -> None:
        publish(connection, 3)
        stream = Stream(url)
        publish(connection, 2)

        assert stream.step() == [4, 5]

    def test_may_be_a_time(self, url: str, connection: Connection) -> None:
        for minute in (0, 2, 1, 3):
            publish(connection, at=MOMENT + timedelta(minutes=minute))

        stream = Stream(url, startingTimestamp=str(MOMENT + timedelta(minutes=1)))
        later = Stream(url, startingTimestamp=str(MOMENT + timedelta(minutes=9)))

        assert stream.step() == [2, 3, 4]
        assert later.step() == []

    def test_may_be_the_last_position_that_was_read(self, url: str, connection: Connection) -> None:
        publish(connection, 5)

        assert Stream(url, startingOffsets='{"position": 3}').step() == [4, 5]
        assert Stream(url, startingOffsets='{"position": 5}').step() == []
        with pytest.raises(OtherCluster, match="ends at position 5 here, before 6"):
            Stream(url, startingOffsets='{"position": 6}')

    def test_of_a_log_that_retention_has_shortened_is_its_first_event(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 5)
        connection.execute("DELETE FROM pgqueue_event WHERE position <= 3")
        raise_floor(connection, 3)

        assert Stream(url, **START).step() == [4, 5]

    def test_that_is_a_time_is_not_before_what_retention_is_about_to_remove(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 5, at=MOMENT)
        raise_floor(connection, 3)

        assert Stream(url, startingTimestamp=str(MOMENT)).step() == [4, 5]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"startingOffsets": "first"}, 'must be earliest, latest or {"position": 0}'),
            ({"startingOffsets": '{"txid": 1, "id": 2}'}, "startingOffsets is "),
            ({"startingOffsets": '{"position": -1}'}, "startingOffsets is "),
            ({"after": "3"}, "after is an option of read, not of readStream"),
        ],
    )
    def test_that_is_wrong_is_named(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            stream_options({"table": "events", **given})


class TestLoss:
    @pytest.fixture
    def behind(self, url: str, connection: Connection) -> Stream:
        """A stream that has read two of ten events."""
        store(connection, 10)
        stream = Stream(url, **START, maxOffsetsPerTrigger="2")
        assert stream.step() == [1, 2]
        return stream

    def test_of_events_that_were_not_read_is_an_error(
        self, behind: Stream, connection: Connection
    ) -> None:
        raise_floor(connection, 3)

        with pytest.raises(DataLoss, match=r"events up to position 3, .* has read up to 2"):
            behind.step()

    def test_of_what_was_read_is_none(self, behind: Stream, connection: Connection) -> None:
        raise_floor(connection, 2)

        assert behind.step() == [3, 4]

    def test_while_it_is_read_is_an_error(self, behind: Stream, connection: Connection) -> None:
        start = behind.offset
        end = eventstream.next_after(start, behind.options, limit=None)
        [part] = eventstream.divide(behind.options, start, end)
        reading = eventstream.read(behind.options, start, part)
        next(reading)
        raise_floor(connection, 3)

        with pytest.raises(DataLoss):
            list(reading)

    def test_may_be_ignored(self, url: str, behind: Stream, connection: Connection) -> None:
        connection.execute("DELETE FROM pgqueue_event WHERE position <= 7")
        raise_floor(connection, 7)
        behind.options = stream_options(
            {"url": url, "table": "events", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "2"}
        )

        assert behind.step() == [8, 9]
        assert behind.step() == [10]

    def test_of_a_start_below_the_floor_is_an_error(
        self, url: str, connection: Connection, behind: Stream
    ) -> None:
        raise_floor(connection, 3)

        with pytest.raises(DataLoss):
            Stream(url, startingOffsets='{"position": 2}').step()


class TestAnotherCluster:
    def test_is_refused(self, url: str, connection: Connection) -> None:
        store(connection, 3)
        stream = Stream(url, **START)
        theirs = stream.offset._replace(database="1")
        [part] = eventstream.divide(stream.options, theirs, theirs._replace(last=3))

        with pytest.raises(OtherCluster, match="follows the database 1, and this is"):
            eventstream.next_after(theirs, stream.options, limit=None)
        with pytest.raises(OtherCluster, match="follows the database 1, and this is"):
            list(eventstream.read(stream.options, theirs, part))
        with pytest.raises(OtherCluster, match="follows the database 1, and this is"):
            eventstream.divide(stream.options, stream.offset, theirs)

    def test_restored_to_an_earlier_time_is_refused(self, url: str, connection: Connection) -> None:
        store(connection, 3)
        stream = Stream(url)
        start = stream.offset
        stream.offset = start._replace(last=4)

        with pytest.raises(OtherCluster, match="log ends at position 3 here, before 4"):
            stream.step()
        with pytest.raises(OtherCluster, match="log ends at position 3 here, before 4"):
            list(eventstream.read(stream.options, start, eventstream.Part(2, 4)))

    def test_with_the_same_number_is_refused(self, url: str, connection: Connection) -> None:
        store(connection, 3)
        stream = Stream(url, **START)
        identity.renew(connection)

        with pytest.raises(OtherCluster, match="another one, or one that was restored"):
            stream.step()

    def test_restored_that_has_caught_up_is_refused(self, url: str, connection: Connection) -> None:
        store(connection, 3)
        stream = Stream(url, **START)
        start = stream.offset
        stream.step()
        [part] = eventstream.divide(stream.options, start, stream.offset)
        assert eventstream.next_after(stream.offset, stream.options, limit=None) == stream.offset
        connection.execute("DELETE FROM pgqueue_event WHERE position >= 3")
        store(connection, 4)

        with pytest.raises(OtherCluster, match="position 3 is not the one that was read"):
            stream.step()
        # As it was begun before the restore, and is read again.
        with pytest.raises(OtherCluster, match="position 3 is not the one that was read"):
            list(eventstream.read(stream.options, start, part))

    def test_is_none_where_retention_has_removed_what_was_read(
        self, url: str, connection: Connection
    ) -> None:
        store(connection, 3)
        stream = Stream(url, **START)
        stream.step()
        connection.execute("DELETE FROM pgqueue_event")
        raise_floor(connection, 3)
        store(connection, 1)

        assert stream.step() == [4]

    def test_a_checkpoint_of_history_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match="checkpoint is of another table"):
            Offset.from_json({"database": "1", "txid": 3, "id": 4})

    def test_a_standby_gives_what_it_has(self, url: str, connection: Connection) -> None:
        stream = Stream(make_conninfo(url, options="-c default_transaction_read_only=on"), **START)
        publish(connection, 3)

        assert stream.step() == []
        store(connection)
        assert stream.step() == [1, 2, 3, 4]


class TestInSpark:
    def test_it_follows_events_over_restarts(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        batches: list[list[int]] = []

        def follow() -> None:
            query = (
                spark.readStream.format("pgqueue")
                .options(url=url, table="events", columns="position", topic="order.**", **START)
                .options(maxOffsetsPerTrigger=4, minPartitions=2)
                .load()
                .writeStream.foreachBatch(lambda frame, number: batches.append(found(frame)))
                .option("checkpointLocation", str(tmp_path))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        publish(connection, 10)
        follow()
        publish(connection, 3)
        follow()

        assert [len(each) for each in batches] == [4, 4, 2, 3]
        assert sorted(each for batch in batches for each in batch) == list(range(1, 14))

        raise_floor(connection, 14)
        with pytest.raises(StreamingQueryException, match="Retention has removed events"):
            follow()


def found(frame: DataFrame) -> list[int]:
    return [row.position for row in frame.collect()]
