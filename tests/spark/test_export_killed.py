"""An export that is killed at any moment, while messages end, loses none and repeats none."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests import killed_exports
from tests.factories import Connection
from tests.killed_exports import messages_ending, start
from tests.spark import test_events_export
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import positions
from tests.spark.test_export import HISTORY, all_ids, exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def writes(folder: Path) -> int:
    """Return how many batches have begun to write files."""
    return len([*folder.glob("history/.spark-staging-*"), *folder.glob("history/day=*/batch_id=*")])


def event_writes(folder: Path) -> int:
    """Return how many batches of events have begun to write files."""
    return len([*folder.glob("events/.spark-staging-*"), *folder.glob("events/day=*/batch_id=*")])


def commits(folder: Path) -> int:
    """Return how many batches Spark has noted as done."""
    return len([*folder.glob("_checkpoint/commits/[0-9]*")])


def compactions(folder: Path) -> int:
    """Return how many steps of compacting a day have left something."""
    return len([*folder.glob("history/_compacted/*")])


def kill(
    process: subprocess.Popen[str], folder: Path, count: Callable[[Path], int], *, after: float
) -> None:
    """Kill an export and all its processes, so many seconds after something new is counted."""
    before = count(folder)
    killed_exports.kill(process, lambda: count(folder) > before, after=after, within=240)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_it_is_the_same_to_every_reader(
    url: str, connection: Connection, tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(7)
    with messages_ending(url, every=0.4):
        for count, batch in ((writes, 400), (commits, 400), (event_writes, 20_000)):
            kill(start(tmp_path, batch=batch), tmp_path, count, after=chance.random())

    assert commits(tmp_path) > 0
    wait_for_horizon(url)
    # The last thing that an export does, which takes it less than a second.
    kill(start(tmp_path, batch=5000), tmp_path, compactions, after=0.2 * chance.random())
    last = start(tmp_path, batch=5000)
    _, err = last.communicate(timeout=300)

    assert last.returncode == 0, err
    expected = all_ids(connection)
    by_duckdb = duckdb.read_parquet(f"{tmp_path}/{HISTORY}").project("id").order("id").fetchall()
    by_spark = spark.read.parquet(f"{tmp_path}/history").select("id").orderBy("id").collect()
    assert exported(tmp_path) == expected
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert len([*tmp_path.glob(f"history/day={yesterday}/batch_id=*")]) == 1
    assert [pk for (pk,) in by_duckdb] == expected
    assert [row.id for row in by_spark] == expected
    assert len(positions(connection)) > 100
    assert test_events_export.exported(tmp_path) == positions(connection)
