"""The errors of Spark's reads and writes of the database.

Spark shows an error of a Python data source inside its own, after a traceback. So each error names
in one line its option or table, and the remedy.
"""

import re

from pgqueue.exceptions import PGQueueError

_OURS = re.compile(
    r"^(?:pgqueue\.spark\.errors|pgqueue\.exceptions|psycopg\.errors|psycopg)\.\w+: (.+)",
    re.MULTILINE,
)
_PYTHONS = re.compile(r"^[\w.]*(?:Error|Exception|Exit): .+", re.MULTILINE)
_FILES = re.compile(r"\[FAILED_READ_FILE\.\w+\] [^\n]* file (\S+?)\.? ")
_CAUSES = re.compile(r"^Caused by: [\w.$]+: ((?:.|\n(?!\tat|\t\.\.\.|Caused by))+)", re.MULTILINE)
_JAVAS = re.compile(r"^: [\w.]+: (.+)", re.MULTILINE)


class SparkError(PGQueueError):
    """The data source refuses or fails."""


class InvalidOption(SparkError):
    """An option of the data source has an unknown name or an invalid value."""


class InvalidColumn(SparkError):
    """A written DataFrame has an unknown column, or a column of another type."""


class InvalidRow(SparkError):
    """A row is no valid message; the write stored nothing."""


class InvalidSource(SparkError):
    """The source of the rows is invalid, or its options do not fit."""


class SnapshotGone(SparkError):
    """The snapshot that the partitions of this read share has ended: load the table again."""


class TableChanged(SparkError):
    """Rows were dropped or rewritten after this read was planned: load the table again."""


class DataLoss(SparkError):
    """Retention has removed rows that this stream, or a read after a position, has not read."""


class OtherCluster(SparkError):
    """A checkpoint, an export or a plan is of another database, or of a later state of this one."""


class ExportConflict(SparkError):
    """Two exports write to one target, or the target's files and its checkpoint differ."""


class UnknownTarget(SparkError):
    """No export was made to this folder."""


class NoExport(SparkError):
    """The folder has no export."""


class ClusterLost(SparkError):
    """The session of Spark in which workers ran has ended."""


class CompactionFailed(SparkError):
    """The rows of a day could not be put into fewer files."""


class NoJava(SparkError):
    """Spark needs Java 17 or newer, which is missing."""


def reason(error: BaseException) -> str:
    """Return in one line the cause that an error of pgqueue or Spark names."""
    text = str(error)
    if (file := _FILES.search(text)) and (causes := _CAUSES.findall(text)):
        return f"{file[1]}: {' '.join(causes[-1].split())}"
    found = _OURS.findall(text) or _PYTHONS.findall(text)[-1:] or _JAVAS.findall(text)
    return str(found[0] if found else text.strip().partition("\n")[0])
