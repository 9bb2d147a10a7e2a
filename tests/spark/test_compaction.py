"""A day that is over becomes few files, with each row once, wherever that is interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas
import pytest

from pgqueue.spark import CompactionFailed, compaction
from pgqueue.spark.compaction import compact, recover
from pgqueue.spark.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TODAY = date(2026, 11, 24)
OVER = "2026-11-23"
VERBS = ("names", "sizes", "delete", "move", "write", "read")


class Killed(Exception):
    """The export is killed here."""


class KilledFiles(Files):
    """Files that are out of reach after so many calls."""

    def __init__(self, spark: SparkSession, root: str, *, after: int) -> None:
        super().__init__(spark, root)
        self._left = after
        for verb in VERBS:
            setattr(self, verb, self._counted(getattr(self, verb)))

    def _counted(self, verb: Any) -> Any:
        def counted(*arguments: str) -> Any:
            # What a call of ours calls itself counts, too.
            if self._left == 0:
                raise Killed
            self._left -= 1
            return verb(*arguments)

        return counted


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, str(tmp_path))


def batch(root: Path, number: int, ids: Iterable[int], *, day: str = OVER, **more: object) -> Path:
    """Write a batch's rows of a day, as a commited one."""
    folder = root / "history" / f"day={day}" / f"batch_id={number}"
    folder.mkdir(parents=True)
    pandas.DataFrame({"id": list(ids), **more}).to_parquet(folder / f"part-{number}.parquet")
    commit(root, number)
    return folder


def batches(root: Path, count: int, *, of: int = 1) -> None:
    """Write so many batches of a day that is over, each of so many rows."""
    for number in range(count):
        batch(root, number, range(number * of, number * of + of))


def commit(root: Path, number: int) -> None:
    commits = root / "_checkpoint" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(number)).touch()


def found(root: Path) -> list[int]:
    """Return the ids that a reader finds by the documented pattern."""
    paths = sorted(root.glob("history/day=*/batch_id=*/*.parquet"))
    return sorted(pk for path in paths for pk in pandas.read_parquet(path)["id"])


def folders(root: Path) -> list[str]:
    return sorted(str(each.relative_to(root / "history")) for each in root.glob("history/*/*"))


def test_a_day_that_is_over_becomes_one_folder(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    batch(tmp_path, 0, range(10))
    batch(tmp_path, 9, range(10, 20))
    batch(tmp_path, 10, range(20, 30))
    batch(tmp_path, 11, range(30, 32), day=str(TODAY))
    batch(tmp_path, 12, range(32, 34), day=str(TODAY))
    batch(tmp_path, 13, range(34, 36), day="2026-11-20")

    done = [compact(spark, files, today=TODAY) for _ in range(2)]

    assert done == [[OVER], []]
    assert folders(tmp_path) == [
        "day=2026-11-20/batch_id=13",
        "day=2026-11-23/batch_id=10",
        "day=2026-11-24/batch_id=11",
        "day=2026-11-24/batch_id=12",
    ]
    assert found(tmp_path) == list(range(36))
    assert len([*tmp_path.glob("history/*/*10/*.parquet")]) == 1
    assert not (tmp_path / "history" / "_compacted").exists()


@pytest.mark.spark
def test_a_batch_that_spark_may_write_again_is_left_alone(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    batches(tmp_path, 3)
    (tmp_path / "_checkpoint" / "commits" / "2").unlink()

    compact(spark, files, today=TODAY)

    assert folders(tmp_path) == [f"day={OVER}/batch_id=1", f"day={OVER}/batch_id=2"]


@pytest.mark.spark
def test_a_large_folder_stays_and_files_have_at_most_its_size(
    spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(tmp_path, 4, of=1000)
    large = batch(tmp_path, 4, range(4000, 9000))
    [before] = large.iterdir()
    size = max(each.stat().st_size for each in tmp_path.glob("history/*/batch_id=[0-3]/*"))
    monkeypatch.setattr(compaction, "LARGE", 2 * size)

    compact(spark, files, today=TODAY)

    assert folders(tmp_path) == [f"day={OVER}/batch_id=3", f"day={OVER}/batch_id=4"]
    assert [*large.iterdir()] == [before]
    assert len([*tmp_path.glob("history/*/batch_id=3/*.parquet")]) == 2
    assert found(tmp_path) == list(range(9000))


@pytest.mark.spark
def test_columns_that_only_later_batches_have_are_kept(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    batch(tmp_path, 0, [1])
    batch(tmp_path, 1, [2], parent_id=[7])

    compact(spark, files, today=TODAY)

    [file] = tmp_path.glob("history/*/*/*.parquet")
    rows = pandas.read_parquet(file).sort_values("id")
    assert rows["parent_id"].fillna(0).tolist() == [0, 7]


@pytest.mark.spark
def test_no_value_changes(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    rows = spark.sql(AWKWARD)
    for number in range(4):
        folder = tmp_path / "history" / f"day={OVER}" / f"batch_id={number}"
        rows.where(f"id = {number}").write.parquet(str(folder))
        commit(tmp_path, number)

    compact(spark, files, today=TODAY)

    merged = spark.read.parquet(str(tmp_path / "history" / f"day={OVER}" / "batch_id=3"))
    assert values(merged) == values(rows)


def values(frame: DataFrame) -> list[Any]:
    """Return all rows in order, with times in microseconds: Python does not know all of them."""
    return frame.selectExpr("*", "unix_micros(at) AS micros").drop("at").orderBy("id").collect()


AWKWARD = r"""
SELECT * FROM VALUES
    (0L, timestamp'0001-01-01 00:00:00Z', X'00ff', 'a\n"\\N', true, 1),
    (1L, timestamp'9999-12-31 23:59:59.999999Z', X'', '', false, -1),
    (2L, timestamp'2026-03-29 02:30:00.000001+02:00', null, '😀', null, null),
    (3L, null, null, null, null, 2147483647) AS t (id, at, body, text, flag, count)
"""


@pytest.mark.spark
@pytest.mark.nightly
def test_it_is_the_same_wherever_it_is_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    batches(root, 3, of=1000)
    expected = found(root)
    size = sum(each.stat().st_size for each in root.glob("history/*/*/*.parquet"))
    # So that two files take their place.
    monkeypatch.setattr(compaction, "LARGE", size * 2 // 3)

    is_done, steps = False, 0
    while not is_done:
        copy = tmp_path / str(steps)
        shutil.copytree(root, copy)
        try:
            compact(spark, KilledFiles(spark, str(copy), after=steps), today=TODAY)
            is_done = True
        except Killed:
            between = found(copy)
            assert len(between) == len({*between})
            recovered_at_any_step(spark, copy, expected)
        files = Files(spark, str(copy))
        recover(files)
        assert found(copy) == expected
        compact(spark, files, today=TODAY)
        assert found(copy) == expected
        assert folders(copy) == [f"day={OVER}/batch_id=2"]
        steps += 1

    assert steps > 15


def recovered_at_any_step(spark: SparkSession, root: Path, expected: list[int]) -> None:
    """Check that recovery, killed at any step, is completed by the next one."""
    is_done, steps = False, 0
    while not is_done:
        copy = root.with_name(f"{root.name}-{steps}")
        shutil.copytree(root, copy)
        try:
            recover(KilledFiles(spark, str(copy), after=steps))
            is_done = True
        except Killed:
            recover(Files(spark, str(copy)))
        assert found(copy) == expected
        assert not (copy / "history" / "_compacted").exists()
        shutil.rmtree(copy)
        steps += 1


@pytest.mark.spark
def test_what_killed_writes_have_left_is_deleted(files: Files, tmp_path: Path) -> None:
    batch(tmp_path, 0, [1])
    shutil.copytree(tmp_path / "history", tmp_path / "left")
    shutil.move(tmp_path / "left", tmp_path / "history" / ".spark-staging-1")

    recover(files)

    assert [each.name for each in (tmp_path / "history").iterdir()] == [f"day={OVER}"]


@pytest.mark.spark
def test_nothing_is_replaced_where_rows_are_missing(
    spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(tmp_path, 2, of=10)
    read = compaction._read

    def lossy(spark: SparkSession, paths: list[str]) -> DataFrame:
        return read(spark, paths).limit(19 if "_compacted" in paths[0] else 20)

    monkeypatch.setattr(compaction, "_read", lossy)

    with pytest.raises(CompactionFailed, match="has 19 rows of 20: nothing is replaced"):
        compact(spark, files, today=TODAY)
    recover(files)

    assert found(tmp_path) == list(range(20))
    assert len(folders(tmp_path)) == 2


@pytest.mark.spark
def test_nothing_is_deleted_where_what_replaces_it_is_gone(files: Files, tmp_path: Path) -> None:
    batches(tmp_path, 2)
    files.write(
        f"history/_compacted/day={OVER}.json",
        f'{{"day": "{OVER}", "batches": [0, 1], "files": ["part-2.parquet"]}}',
    )

    with pytest.raises(CompactionFailed, match=r"names files that are gone: part-2.parquet"):
        recover(files)

    assert found(tmp_path) == [0, 1]


@pytest.mark.spark
def test_what_another_export_has_begun_to_change_is_not_lost(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    batches(tmp_path, 2)

    def notice() -> None:
        raise Killed

    with pytest.raises(Killed):
        compact(spark, files, confirm=notice, today=TODAY)
    recover(files)
    assert folders(tmp_path) == [f"day={OVER}/batch_id=0", f"day={OVER}/batch_id=1"]
    with pytest.raises(CompactionFailed, match="names files that are gone"):
        compact(spark, files, confirm=lambda: files.delete("history/_compacted"), today=TODAY)

    assert found(tmp_path) == [0, 1]


@pytest.mark.spark
def test_readers_do_not_see_what_is_being_written(
    spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    batches(tmp_path, 2)
    seen: list[list[int]] = []

    def look() -> None:
        rows = spark.read.parquet(str(tmp_path / "history")).orderBy("id").collect()
        seen.append([row.id for row in rows])
        pattern = str(tmp_path / "history" / "day=*" / "batch_id=*" / "*.parquet")
        seen.append(sorted(pk for (pk,) in duckdb.read_parquet(pattern).project("id").fetchall()))

    compact(spark, files, confirm=look, today=TODAY)

    assert seen == [[0, 1], [0, 1]]
