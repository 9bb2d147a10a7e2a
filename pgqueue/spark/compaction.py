"""Make few files of the many that batches have written into a day that is over.

The rows of a day's small folders are written into one file or a few, in a folder that no reader
looks into:

    history/_compacted/day=2026-11-24/part-….parquet
    history/_compacted/day=2026-11-24.json

If all rows are there, a marker is written, which says what replaces what. Only then the small
folders are deleted, and the new files take their place. An export begins with `recover`: without
the marker, what was written is deleted; with it, the replacement is completed, wherever it was
interrupted. Files are moved one by one: an object store can move no folder as a whole.

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
from pgqueue.values.escaping import logger_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pgqueue.spark.files import Files

logger = logger_of(__name__)

LARGE = 256 * 2**20
"""Bytes of a folder that stays as it is, and of a file that is written, at most."""
UNFINISHED = ".spark-staging-"
FILE = re.compile(r"day=(\d{4}-\d\d-\d\d)/batch_id=(\d+)/[^/]+\.parquet")


class Layout(NamedTuple):
    """Where a log is in an export.

    Attributes:
        name: of its folder, and of the table.
        time: the column that tells a row's day.
        checkpoint: the folder of its stream's.
    """

    name: str
    time: str
    checkpoint: str

    @property
    def staged(self) -> str:
        """Where files are written that will replace others."""
        return f"{self.name}/_compacted"

    def folder(self, day: str, batch: int) -> str:
        """Return where the rows of a batch are."""
        return f"{self.name}/day={day}/batch_id={batch}"


HISTORY = Layout("history", "finished_at", "_checkpoint")
EVENTS = Layout("events", "created_at", "_checkpoint_events")


class Replacement(NamedTuple):
    """What a marker says: the files, in `_compacted`, that replace a day's batches."""

    day: str
    batches: list[int]
    files: list[str]

    def staged(self, log: Layout) -> str:
        """Return where the files are written."""
        return f"{log.staged}/day={self.day}"

    def marker(self, log: Layout) -> str:
        """Return where this is noted."""
        return f"{self.staged(log)}.json"

    def target(self, log: Layout) -> str:
        """Return where the files belong: the folder of the last batch."""
        return log.folder(self.day, max(self.batches))


def recover(files: Files, log: Layout = HISTORY) -> None:
    """Complete or undo a replacement that was interrupted; delete what killed writes have left.

    Nothing else may write to the log's folder meanwhile.

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
    """Merge the small folders of each day that is over; return these days.

    Batches that Spark has not committed stay as they are: it would write them again.

    Args:
        confirm: is called before a day's folders are replaced; it raises an error if another export
            may write to them by now.
        today: the first day that is not over; by default today in UTC.

    Raises:
        CompactionFailed: rows are missing from what was written; nothing was replaced.
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
    """Return the last batch that Spark has committed, and so never writes again; -1: none."""
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
    """Write the rows of batches once more, beside them; return what replaces what."""
    batches = sorted(sizes)
    merged = Replacement(day, batches, [])
    staged = merged.staged(log)
    rows = _read(spark, [files.path(log.folder(day, batch)) for batch in batches])
    count = ceil(sum(sizes.values()) / LARGE)
    rows.coalesce(count).write.mode("overwrite").parquet(files.path(staged))
    names = [name for name in files.names(staged) if name.endswith(".parquet")]
    paths = [files.path(f"{staged}/{name}") for name in names]
    there, written = rows.count(), _read(spark, paths).count() if paths else 0
    if written != there:
        raise CompactionFailed(
            f"{files.path(staged)} has {written} rows of {there}: nothing is replaced."
        )
    return merged._replace(files=names)


def _read(spark: SparkSession, paths: Collection[str]) -> DataFrame:
    """Return all rows of files or folders, or an error, whatever the session says."""
    return (
        spark.read.option("mergeSchema", True)
        .option("ignoreCorruptFiles", False)
        .option("ignoreMissingFiles", False)
        .parquet(*paths)
    )


def _replace(files: Files, log: Layout, merged: Replacement) -> None:
    """Put files in the place of batches; each step may have been done before."""
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
