"""DataFrames become events: together, in their order, and once whatever is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

import pgqueue
from pgqueue.exceptions import WriteConflict
from pgqueue.models import EventInbox, Staged
from pgqueue.models import Write as WriteRecord
from pgqueue.spark import InvalidColumn, InvalidOption, InvalidRow
from pgqueue.spark.errors import reason
from pgqueue.spark.writeoptions import write_options
from pgqueue.spark.writing import Attempt, Rows
from tests.factories import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = T.StringType()


def rows(url: str, *, is_stream: bool = False, types: Any = None, **given: str) -> Rows:
    options = write_options({"url": url, "operation": "publish", **given}, is_stream=is_stream)
    fields = [T.StructField(name, each) for name, each in (types or {"key": TEXT}).items()]
    return Rows(options, T.StructType(fields))


def stage(writing: Rows, partition: int = 0, **columns: Any) -> Attempt:
    batch = pa.record_batch({name: pa.array(each) for name, each in columns.items()})
    return writing.stage([batch], partition=partition)


class TestAWrite:
    def test_becomes_events_as_those_of_publish(self, url: str, connection: Connection) -> None:
        types = dict.fromkeys(("topic", "key", "payload", "metadata"), TEXT)
        writing = rows(url, types=types)
        attempt = stage(
            writing,
            topic=["order.paid", "user.new"],
            key=["7", None],
            payload=['{"total": 3}', None],
            metadata=['{"who": "me"}', None],
        )

        writing.commit([attempt], version=None)

        paid, new = pgqueue.read()
        assert (paid.topic, paid.key, paid.payload, paid.metadata) == (
            *("order.paid", "7"),
            *({"total": 3}, {"who": "me"}),
        )
        assert (new.topic, new.key, new.payload, new.metadata) == ("user.new", "", None, {})
        assert not Staged.objects.exists()

    def test_of_structs_reads_as_what_they_were(self, url: str, connection: Connection) -> None:
        inner = T.StructType().add("total", T.LongType()).add("@", TEXT)
        writing = rows(url, topic="t", types={"payload": inner})

        writing.commit([stage(writing, payload=[{"total": 3, "@": "x"}])], version=None)

        [event] = pgqueue.read()
        assert event.payload == {"total": 3, "@": "x"}

    def test_keeps_the_order_of_the_rows(self, url: str, connection: Connection) -> None:
        writing = rows(url, topic="t")
        second = stage(writing, 1, key=[str(each) for each in range(50, 100)])
        first = stage(writing, 0, key=[str(each) for each in range(50)])

        writing.commit([second, first], version=None)

        assert [each.key for each in pgqueue.read()] == [str(each) for each in range(100)]

    def test_tells_readers_once_when_it_commits(self, url: str, connection: Connection) -> None:
        connection.execute(
            "INSERT INTO pgqueue_reader (id, host, pid, last_seen, notify_until) "
            "VALUES (gen_random_uuid(), '', 1, now(), now() + interval '1 hour')"
        )
        writing = rows(url, topic="t")
        attempts = [stage(writing, each, key=["a"]) for each in range(3)]
        with psycopg.connect(url, autocommit=True) as listener:
            [channel] = listener.execute("SELECT pgqueue_notifications_v1() || '_events'")
            listener.execute(f'LISTEN "{channel[0]}"')

            assert [*listener.notifies(timeout=0)] == []
            writing.commit(attempts, version=None)
            heard = [*listener.notifies(timeout=10, stop_after=1)]
            heard += listener.notifies(timeout=0)

        assert len(heard) == 1

    def test_is_committed_once(self, url: str, connection: Connection) -> None:
        writing = rows(url, topic="t", txnAppId="import", txnVersion="1")
        for _ in range(2):
            writing.commit([stage(writing, key=["a", "b"])], version=1)

        assert len(pgqueue.read()) == 2
        with pytest.raises(WriteConflict, match="it is another write"):
            writing.commit([stage(writing, key=["a"])], version=1)
        assert len(pgqueue.read()) == 2

    def test_of_which_rows_are_gone_publishes_nothing(
        self, url: str, connection: Connection
    ) -> None:
        writing = rows(url, topic="t", txnAppId="import", txnVersion="1")
        attempt = stage(writing, key=["a", "b"])
        Staged.objects.filter(number=1).delete()

        with pytest.raises(WriteConflict, match="Of 2 staged rows, 1 are left"):
            writing.commit([attempt], version=1)

        assert not EventInbox.objects.exists()
        assert not WriteRecord.objects.exists()


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"topic": ["ok", "a..b"]}, "'topic': topic='a..b': it must be words"),
            ({"topic": ["order.*"]}, "'topic': topic='order.*'"),
            ({"topic": [""]}, "'topic' has '': it must have from 1 to 200 bytes"),
            ({"topic": ["t" * 201]}, "'topic' has 'ttt"),
            ({"topic": [None]}, "'topic' has a null"),
            ({"topic": ["a\x00b"]}, "has the character NUL"),
            ({"topic": ["a"], "key": ["ä" * 501]}, "'key' has .* 1,000 bytes"),
            ({"topic": ["a"], "payload": ["{"]}, "'payload' is refused: invalid input syntax"),
            ({"topic": ["a"], "metadata": ["[1]"]}, r"'metadata': '\[1\]' is not a JSON object"),
        ],
    )
    def test_in_a_row_is_named_before_anything_is_published(
        self, url: str, connection: Connection, columns: dict[str, Any], said: str
    ) -> None:
        writing = rows(url, types=dict.fromkeys(columns, TEXT))

        with pytest.raises(InvalidRow, match=said) as raised:
            stage(writing, **columns)

        assert "\n" not in str(raised.value)

    @pytest.mark.parametrize(
        ("types", "said"),
        [
            ({"key": TEXT}, "Events need a topic: a column or an option"),
            ({"topic": TEXT, "channel": TEXT}, "no column 'channel'"),
            ({"topic": T.LongType()}, "'topic' is bigint; it must be string"),
        ],
    )
    def test_among_the_columns_is_named(self, types: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidColumn, match=said):
            rows("", types=types)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"operation": "publish", "task": "t"}, "publish takes no task and no channel"),
            ({"operation": "enqueue", "topic": "t"}, "enqueue takes no topic"),
            ({"operation": "replay", "topic": "t"}, "replay takes no task .* no topic"),
            ({"operation": "publish", "topic": "a..b"}, "option topic is 'a..b': .* words"),
            ({"operation": "publish", "topic": ""}, "option topic is '': it must be a name"),
        ],
    )
    def test_among_the_options_is_named(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidOption, match=said):
            write_options(given, is_stream=False)


class TestInSpark:
    def test_a_frame_is_published_in_its_order_and_once(
        self, spark: SparkSession, url: str, connection: Connection
    ) -> None:
        frame = spark.range(1000).select(
            F.concat(F.lit("order.n"), F.col("id") % 7).alias("topic"),
            F.struct(F.col("id").alias("number")).alias("payload"),
        )

        for _ in range(2):
            frame.write.format("pgqueue").mode("append").options(
                url=url, operation="publish", txnAppId="import", txnVersion=1
            ).save()

        assert [each.payload["number"] for each in pgqueue.read()] == list(range(1000))
        assert not Staged.objects.exists()

    @pytest.mark.spark
    def test_a_stream_publishes_each_row_once(
        self, spark: SparkSession, url: str, connection: Connection, tmp_path: Path
    ) -> None:
        def add(first: int) -> None:
            numbers = spark.range(first, first + 50).selectExpr("id AS number")
            numbers.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

        def run() -> None:
            query = (
                spark.readStream.schema("number long")
                .parquet(str(tmp_path / "in"))
                .select(F.struct("number").alias("payload"))
                .writeStream.format("pgqueue")
                .options(url=url, operation="publish", topic="t", txnAppId="scorer")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        add(0)
        run()
        add(50)
        run()
        # As if it was killed after PostgreSQL committed the second batch, and before Spark did.
        for name in ("1", ".1.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink()
        run()

        assert [each.payload["number"] for each in pgqueue.read()] == list(range(100))
        shutil.rmtree(tmp_path / "checkpoint")
        with pytest.raises(Exception, match="has committed version 1, and this is") as raised:
            run()
        assert "\n" not in reason(raised.value)
        assert len(pgqueue.read()) == 100
