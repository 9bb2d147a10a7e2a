"""Make few files of the many that batches have written into a day that is over.

The rows of a day's small folders are written into one file or a few, in a folder that no reader
looks into:

    history/_compacted/day=2026-11-24/part-….parquet
    history/_compacted/day=2026-11-24.json

If all rows are there, a marker is written, which says what replaces what. Only then the small
folders are deleted, and the new files take their place. An export begins with `recover`: without
the marker, what was written is deleted; with it, the replacement is completed, wherever it was
interrupted. Files are moved one by one: an object store can move no folder as a whole.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from pgqueue.spark.errors import CompactionFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pgqueue.spark.files import Files

logger = logging.getLogger(__name__)

LARGE = 256 * 2**20
"""Bytes of a folder that stays as it is, and of a file that is written, at most."""
HISTORY = "history"
STAGED = f"{HISTORY}/_compacted"
COMMITS = "_checkpoint/commits"
UNFINISHED = ".spark-staging-"
FILE = re.compile(r"day=(\d{4}-\d\d-\d\d)/batch_id=(\d+)/[^/]+\.parquet")


class Replacement(NamedTuple):
    """What a marker says: the files, in `_compacted`, that replace a day's batches."""

    day: str
    batches: list[int]
    files: list[str]

    @property
    def staged(self) -> str:
        """Where the files are written."""
        return f"{STAGED}/day={self.day}"

    @property
    def marker(self) -> str:
        """Where this is noted."""
        return f"{self.staged}.json"

    @property
    def target(self) -> str:
        """Where the files belong: the folder of the last batch."""
        return _folder(self.day, max(self.batches))


def recover(files: Files) -> None:
    """Complete or undo a replacement that was interrupted; delete what killed writes have left.

    Nothing else may write to history meanwhile.

    Raises:
        CompactionFailed: files that a marker names are gone.
    """
    for name in files.names(STAGED):
        if name.endswith(".json"):
            _replace(files, Replacement(**json.loads(files.read(f"{STAGED}/{name}"))))
    files.delete(STAGED)
    for name in files.names(HISTORY):
        if name.startswith(UNFINISHED):
            files.delete(f"{HISTORY}/{name}")


def compact(
    spark: SparkSession,
    files: Files,
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
    last = last_committed(files)
    first_kept = (today or datetime.now(UTC).date()).isoformat()
    done = []
    for day, sizes in sorted(_sizes(files).items()):
        small = {batch: size for batch, size in sizes.items() if size < LARGE and batch <= last}
        if day < first_kept and len(small) > 1:
            merged = _merge(spark, files, day, small)
            confirm()
            files.write(merged.marker, json.dumps(merged._asdict()))
            _replace(files, merged)
            logger.info("merged %s batches of %s", len(small), day)
            done.append(day)
    if done:
        files.delete(STAGED)
    return done


def last_committed(files: Files) -> int:
    """Return the last batch that Spark has committed, and so never writes again; -1: none."""
    return max((int(name) for name in files.names(COMMITS) if name.isdigit()), default=-1)


def _sizes(files: Files) -> Mapping[str, Mapping[int, int]]:
    """Return the bytes of each batch of each day."""
    sizes: dict[str, Counter[int]] = defaultdict(Counter)
    for name, size in files.sizes(HISTORY).items():
        if found := FILE.fullmatch(name):
            sizes[found[1]][int(found[2])] += size
    return sizes


def _merge(spark: SparkSession, files: Files, day: str, sizes: Mapping[int, int]) -> Replacement:
    """Write the rows of batches once more, beside history; return what replaces what."""
    batches = sorted(sizes)
    merged = Replacement(day, batches, [])
    rows = _read(spark, [files.path(_folder(day, batch)) for batch in batches])
    count = ceil(sum(sizes.values()) / LARGE)
    rows.coalesce(count).write.mode("overwrite").parquet(files.path(merged.staged))
    names = [name for name in files.names(merged.staged) if name.endswith(".parquet")]
    paths = [files.path(f"{merged.staged}/{name}") for name in names]
    there, written = rows.count(), _read(spark, paths).count() if paths else 0
    if written != there:
        raise CompactionFailed(
            f"{files.path(merged.staged)} has {written} rows of {there}: nothing is replaced."
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


def _replace(files: Files, merged: Replacement) -> None:
    """Put files in the place of batches; each step may have been done before."""
    staged = files.names(merged.staged)
    missing = {*merged.files} - {*staged, *files.names(merged.target)}
    if missing:
        raise CompactionFailed(
            f"{files.path(merged.marker)} names files that are gone: {', '.join(sorted(missing))}."
        )
    for batch in merged.batches[:-1]:
        files.delete(_folder(merged.day, batch))
    for name in files.names(merged.target):
        if name not in merged.files:
            files.delete(f"{merged.target}/{name}")
    for name in merged.files:
        if name in staged:
            files.move(f"{merged.staged}/{name}", f"{merged.target}/{name}")
    files.delete(merged.staged)
    files.delete(merged.marker)


def _folder(day: str, batch: int) -> str:
    return f"{HISTORY}/day={day}/batch_id={batch}"
