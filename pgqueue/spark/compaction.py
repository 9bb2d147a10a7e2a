"""Merge the many files that batches have written into a past day into a few.

The compaction writes the rows of a day's small folders into one file or a few. They are in a
folder that readers ignore:

    history/_compacted/day=2026-11-24/part-….parquet
    history/_compacted/day=2026-11-24.json

If all rows are there, it writes a marker that lists the new files and the replaced batches. Only
then it deletes the small folders, and moves the new files into their place. An export begins with
`recover`. Without the marker, `recover` deletes the new files. With it, `recover` completes the
replacement. Files are moved one by one, since an object store moves no folder as a whole.

Events are compacted in the same way, in a folder of their own.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.spark.errors import CompactionFailed
from pgqueue.spark.parquet import parquet_options
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pgqueue.spark.files import Files

logger = logger_of(__name__)

LARGE = 256 * 2**20
"""The most bytes of a file. A folder of at least as many bytes is not merged."""
UNFINISHED = ".spark-staging-"
FILE = re.compile(r"day=(\d{4}-\d\d-\d\d)/batch_id=(\d+)/[^/]+\.parquet")


class Layout(NamedTuple):
    """The place of a log in an export.

    Attributes:
        name: the name of its folder and of its table.
        time: the column that tells a row's day.
        checkpoint: the folder of its stream's checkpoint.
    """

    name: str
    time: str
    checkpoint: str

    @property
    def staged(self) -> str:
        """The folder of the new files, before they replace others."""
        return f"{self.name}/_compacted"

    def folder(self, day: str, batch: int) -> str:
        """Return the folder of a batch."""
        return f"{self.name}/day={day}/batch_id={batch}"


HISTORY = Layout("history", "finished_at", "_checkpoint")
EVENTS = Layout("events", "created_at", "_checkpoint_events")


class Replacement(NamedTuple):
    """The content of a marker: the files in `_compacted` that replace a day's batches."""

    day: str
    batches: list[int]
    files: list[str]

    def staged(self, log: Layout) -> str:
        """Return the folder of the new files."""
        return f"{log.staged}/day={self.day}"

    def marker(self, log: Layout) -> str:
        """Return the path of the marker."""
        return f"{self.staged(log)}.json"

    def target(self, log: Layout) -> str:
        """Return the folder that the files are moved to: the folder of the last batch."""
        return log.folder(self.day, max(self.batches))


def recover(files: Files, log: Layout = HISTORY) -> None:
    """Complete or undo an interrupted replacement; delete the files of killed writes.

    No other process may write to the log's folder meanwhile.

    Raises:
        CompactionFailed: files that a marker names are gone.
    """
    for name in files.names(log.staged):
        if name.endswith(".json"):
            _replace(files, log, Replacement(**json.loads(files.read(f"{log.staged}/{name}"))))
    files.delete(log.staged)
    for name in files.names(log.name):
        if name.startswith(UNFINISHED):
            files.delete(f"{log.name}/{name}")


def compact(
    spark: SparkSession,
    files: Files,
    log: Layout = HISTORY,
    *,
    confirm: Callable[[], object] = lambda: None,
    today: date | None = None,
) -> list[str]:
    """Merge the small folders of each past day; return these days.

    Batches that Spark has not committed stay as they are: it would write them again.

    Args:
        confirm: The function is called before a day's folders are replaced. It raises an error if
            another export may write to them.
        today: The first day that is not over; by default today in UTC.

    Raises:
        CompactionFailed: rows are missing from the new files; no folder was replaced.
    """
    last = last_committed(files, log)
    first_kept = (today or datetime.now(UTC).date()).isoformat()
    done = []
    for day, sizes in sorted(_sizes(files, log).items()):
        small = {batch: size for batch, size in sizes.items() if size < LARGE and batch <= last}
        if day < first_kept and len(small) > 1:
            merged = _merge(spark, files, log, day, small)
            confirm()
            files.write(merged.marker(log), json.dumps(merged._asdict()))
            _replace(files, log, merged)
            logger.info("merged %s batches of %s", len(small), day)
            done.append(day)
    if done:
        files.delete(log.staged)
    return done


def last_committed(files: Files, log: Layout = HISTORY) -> int:
    """Return the last batch that Spark has committed, and will not write again; -1: none."""
    names = files.names(f"{log.checkpoint}/commits")
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _sizes(files: Files, log: Layout) -> Mapping[str, Mapping[int, int]]:
    """Return the bytes of each batch of each day."""
    sizes: dict[str, Counter[int]] = defaultdict(Counter)
    for name, size in files.sizes(log.name).items():
        if found := FILE.fullmatch(name):
            sizes[found[1]][int(found[2])] += size
    return sizes


def _merge(
    spark: SparkSession, files: Files, log: Layout, day: str, sizes: Mapping[int, int]
) -> Replacement:
    """Write the rows of batches into new files; return the replacement."""
    batches = sorted(sizes)
    merged = Replacement(day, batches, [])
    staged = merged.staged(log)
    rows = _read(spark, [files.path(log.folder(day, batch)) for batch in batches])
    count = ceil(sum(sizes.values()) / LARGE)
    writer = rows.coalesce(count).write.options(**parquet_options(rows))
    writer.mode("overwrite").parquet(files.path(staged))
    names = [name for name in files.names(staged) if name.endswith(".parquet")]
    paths = [files.path(f"{staged}/{name}") for name in names]
    there, written = rows.count(), _read(spark, paths).count() if paths else 0
    if written != there:
        raise CompactionFailed(
            f"{files.path(staged)} has {written} rows of {there}: nothing is replaced."
        )
    return merged._replace(files=names)


def _read(spark: SparkSession, paths: Collection[str]) -> DataFrame:
    """Return all rows of files, or raise an error, also if the session ignores such errors."""
    return (
        spark.read.option("mergeSchema", True)
        .option("ignoreCorruptFiles", False)
        .option("ignoreMissingFiles", False)
        .parquet(*paths)
    )


def _replace(files: Files, log: Layout, merged: Replacement) -> None:
    """Replace batches by the new files; each step can be repeated."""
    source, target = merged.staged(log), merged.target(log)
    staged = files.names(source)
    missing = {*merged.files} - {*staged, *files.names(target)}
    if missing:
        raise CompactionFailed(
            f"{files.path(merged.marker(log))} names files that are gone: "
            f"{', '.join(sorted(missing))}."
        )
    for batch in merged.batches[:-1]:
        files.delete(log.folder(merged.day, batch))
    for name in files.names(target):
        if name not in merged.files:
            files.delete(f"{target}/{name}")
    for name in merged.files:
        if name in staged:
            files.move(f"{source}/{name}", f"{target}/{name}")
    files.delete(source)
    files.delete(merged.marker(log))
