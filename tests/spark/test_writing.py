"""DataFrames become messages inside Spark: together, in order, and once whatever is repeated."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pgqueue.models import History, Message, Staged
from pgqueue.models import Write as WriteRecord
from pgqueue.spark.errors import reason
from pgqueue.spark.source import PgQueueDataSource, StreamWriter
from pgqueue.spark.writeoptions import write_options
from pgqueue.spark.writing import Rows
from tests.factories import Connection, bury
from tests.spark.conftest import Load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def write(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("pgqueue").mode("append").options(url=url, **options).save()


def numbers(connection: Connection) -> list[int]:
    """Return the numbers that messages were made of, in the order of the messages."""
    rows = connection.execute(
        "SELECT (payload -> 'kwargs' ->> 'number')::int FROM pgqueue_message ORDER BY id"
    ).fetchall()
    return [number for (number,) in rows]


def test_a_frame_is_written_in_its_order_and_once(
    spark: SparkSession, url: str, connection: Connection
) -> None:
    frame = spark.range(1000).select(F.struct(F.col("id").alias("number")).alias("kwargs"))

    for _ in range(2):
        write(frame, url, task="tests.task", txnAppId="import", txnVersion=1)

    assert numbers(connection) == list(range(1000))
    assert not Staged.objects.exists()
    assert WriteRecord.objects.get().rows == 1000


def test_what_is_wrong_is_said_in_one_line_and_nothing_is_left(
    spark: SparkSession, url: str, connection: Connection
) -> None:
    frame = spark.range(100).select(F.col("id").cast("int").alias("priority")).repartition(3)
    bad = frame.union(spark.sql("SELECT 101 AS priority"))

    with pytest.raises(Exception, match="priority") as raised:
        write(bad, url, task="tests.task")

    assert reason(raised.value) == ("The column 'priority' has 101: it must have from -100 to 100.")
    assert not Message.objects.exists()


@pytest.mark.spark
class TestAWrite:
    def test_of_an_older_version_is_an_error(
        self, spark: SparkSession, url: str, connection: Connection
    ) -> None:
        frame = spark.sql("SELECT 'k' AS key")
        write(frame, url, task="tests.task", txnAppId="import", txnVersion=2)

        with pytest.raises(Exception, match="has committed version 2, and this is version 1"):
            write(frame, url, task="tests.task", txnAppId="import", txnVersion=1)

        assert Message.objects.count() == 1

    def test_that_fails_in_one_task_leaves_nothing(
        self, spark: SparkSession, url: str, connection: Connection
    ) -> None:
        fails = F.when(F.col("id") == 999, F.raise_error(F.lit("oops"))).otherwise("k")
        frame = spark.range(0, 1000, 1, 4).select(fails.cast("string").alias("key"))

        with pytest.raises(Exception, match="oops"):
            write(frame, url, task="tests.task")

        assert not Message.objects.exists()

    def test_takes_variants(self, spark: SparkSession, url: str, connection: Connection) -> None:
        frame = spark.sql(
            """SELECT parse_json('{"number": 7}') AS kwargs
            UNION ALL SELECT to_variant_object(named_struct('number', 8))"""
        )

        write(frame, url, task="tests.task")

        assert sorted(numbers(connection)) == [7, 8]

    def test_replays_what_a_query_picked(
        self, spark: SparkSession, url: str, connection: Connection, load: Load
    ) -> None:
        dead = bury(connection, 20, channel="a")
        bury(connection, 5, channel="b")
        load("deadletters").createOrReplaceTempView("dead")

        picked = spark.sql(f"SELECT id FROM dead WHERE channel = 'a' AND id > {dead[9]}")  # noqa: S608
        write(picked, url, operation="replay")

        ready = Message.objects.filter(state="ready").order_by("pk")
        assert [each.pk for each in ready] == dead[10:]
        write(load("deadletters", channel="b").select("id"), url, operation="discard")
        assert History.objects.filter(outcome="discarded").count() == 5

    def test_overwriting_is_refused(self, spark: SparkSession, url: str) -> None:
        with pytest.raises(Exception, match=r"mode\('append'\)|[Oo]verwrite"):
            spark.range(1).write.format("pgqueue").mode("overwrite").options(
                url=url, task="t"
            ).save()


class Killed(StreamWriter):
    """A writer whose process dies in its commit, once."""

    def __init__(self, rows: Rows, moment: str, mark: Path) -> None:
        super().__init__(rows)
        self._moment = moment
        self._mark = mark

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        is_first = batchId == 1 and not self._mark.exists()
        if is_first and self._moment == "before":
            self._mark.touch()
            os._exit(1)
        super().commit(messages, batchId)
        if is_first:
            self._mark.touch()
            os._exit(1)


class Dying(PgQueueDataSource):
    """The data source, of which the driver's process dies before or after the database commits."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        options = dict(self.options)
        moment, mark = options.pop("moment"), Path(options.pop("mark"))
        return Killed(Rows(write_options(options, is_stream=True), schema), moment, mark)


@pytest.mark.spark
class TestAStream:
    @pytest.fixture(autouse=True)
    def _folders(self, spark: SparkSession, url: str, tmp_path: Path) -> None:
        self.spark, self.url, self.folder = spark, url, tmp_path

    def add(self, first: int, count: int = 50) -> None:
        rows = self.spark.range(first, first + count).selectExpr("id AS number")
        rows.coalesce(1).write.mode("append").parquet(str(self.folder / "in"))

    def run(self, form: str = "pgqueue", **options: Any) -> StreamingQuery:
        given = {
            "url": self.url,
            "task": "tests.task",
            "txnAppId": "scorer",
            "checkpointLocation": str(self.folder / "checkpoint"),
            **options,
        }
        query = (
            self.spark.readStream.schema("number long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / "in"))
            .select(F.struct("number").alias("kwargs"))
            .writeStream.format(form)
            .options(**given)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_whose_process_dies_in_a_commit_stores_each_row_once(
        self, connection: Connection, moment: str
    ) -> None:
        # Spark's processes import no tests.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.spark.dataSource.register(Dying)
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        for first in (0, 50, 100):
            self.add(first)
        with pytest.raises(StreamingQueryException):
            self.run("dying", moment=moment, mark=str(self.folder / "mark"))
        stored = len(numbers(connection))

        self.run()

        assert stored == {"before": 50, "after": 100}[moment]
        assert sorted(numbers(connection)) == list(range(150))
        assert WriteRecord.objects.get().version == 2

    def test_whose_checkpoint_was_deleted_is_refused(self, connection: Connection) -> None:
        self.add(0)
        self.run()
        self.add(50)
        self.run()
        shutil.rmtree(self.folder / "checkpoint")

        with pytest.raises(Exception, match="has committed version 1, and this is version 0"):
            self.run()

        assert len(numbers(connection)) == 100

    def test_under_the_id_of_another_one_is_refused(self, connection: Connection) -> None:
        self.add(0)
        self.run()

        with pytest.raises(Exception, match="it is another write"):
            self.run(checkpointLocation=str(self.folder / "another"))

        assert len(numbers(connection)) == 50
