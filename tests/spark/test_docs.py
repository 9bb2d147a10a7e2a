"""The examples of docs/pipeline.md run, one after the other, and the queries of docs/scale.md."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable

import pgqueue
from pgqueue.arrow.options import NAMES
from pgqueue.arrow.tables import TABLES
from pgqueue.models import Message
from pgqueue.spark.writeoptions import OF_BATCHES, OF_EVERY_WRITE, OPERATIONS
from pgqueue.spark.written import EVENT, IDS, MESSAGE
from tests.factories import Connection, bury, ended
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import publish
from tests.spark.test_export import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
SCALE = PAGE.with_name("scale.md").read_text("utf-8")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_examples_run(
    spark: SparkSession,
    url: str,
    connection: Connection,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended(connection, 3)
    publish(connection, 2, payload={"order": 7})
    wait_for_horizon(url)
    module = ModuleType("example")

    for example in re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        # Spark's processes have their environment since the session began.
        example = example.replace('"env:DATABASE_URL"', repr(url))
        example = example.replace("/srv", str(tmp_path))
        exec(compile(example, PAGE.name, "exec"), module.__dict__)  # noqa: S102
    spark.streams.removeListener(module.metrics)
    module.metrics.close()

    said = capsys.readouterr().out
    assert "tests.task|succeeded|    3|" in said
    assert "order.paid|       2|" in said
    assert [each.payload for each in pgqueue.read(topics="order.counted")] == [
        {"order": 1},
        {"order": 2},
    ]
    assert "order.paid|     7|" in said
    assert Message.objects.filter(task="shop.jobs.send_receipt").count() == 2
    exported = DeltaTable(f"{tmp_path}/lake/tables/history").to_pyarrow_table()
    assert exported.num_rows == 3


@pytest.mark.spark
def test_the_queries_run(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 3)
    ended(connection, 2, outcome="expired")
    bury(connection, 4)
    run(spark, url, tmp_path)
    [of_postgresql] = re.findall(r"^```sql\n(.*?)^```", SCALE, re.M | re.S)
    of_duckdb = re.findall(r"^```sql duckdb\n(.*?)^```", SCALE, re.M | re.S)

    counts = connection.execute(of_postgresql).fetchall()
    history, letters = (
        duckdb.sql(each.replace("/srv/lake/queue", str(tmp_path))).fetchall() for each in of_duckdb
    )

    assert [row[:3] for row in counts] == [
        ("tests.task", "expired", 2),
        ("tests.task", "succeeded", 3),
    ]
    assert (sum(row[2] for row in history), sum(row[3] for row in history)) == (5, 2)
    assert [row[:3] for row in letters] == [("default", "Oops", 4)]


def test_every_table_column_and_option_is_described() -> None:
    text = PAGE.read_text("utf-8")
    written = [*MESSAGE, *EVENT, *IDS, *OF_EVERY_WRITE, *OF_BATCHES, *OPERATIONS]

    names = [*TABLES, *NAMES.values(), *written]
    assert [name for name in names if f"`{name}`" not in text] == []
