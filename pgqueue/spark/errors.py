"""What goes wrong between Spark and the database.

Spark shows an error of a Python data source inside its own, after a traceback: so each says in one
line which option or table it is about, and what to do.
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
    """The data source can't do this."""


class InvalidOption(SparkError):
    """An option of the data source has an unknown name, or a value that can't be."""


class InvalidColumn(SparkError):
    """A DataFrame that is written has an unknown column, or one of another type."""


class InvalidRow(SparkError):
    """A row can't become a message: nothing of the write was stored."""


class InvalidSource(SparkError):
    """What rows are to be read from is no source that Spark has here."""


class SnapshotGone(SparkError):
    """The snapshot that the partitions of this read share has ended: load it again."""


class TableChanged(SparkError):
    """Rows were dropped or rewritten after this read was planned: load it again."""


class DataLoss(SparkError):
    """Retention has removed what this stream, or a read after a position, has not read."""


class OtherCluster(SparkError):
    """A checkpoint, an export or a plan is of another database, or of a later state of this one."""


class ExportConflict(SparkError):
    """Two exports write to one target, or what it has and what its checkpoint says differ."""


class UnknownTarget(SparkError):
    """No export was made to this folder."""


class NoExport(SparkError):
    """A folder has no export to read."""


class ClusterLost(SparkError):
    """The session of Spark in which workers ran has ended."""


class CompactionFailed(SparkError):
    """The rows of a day could not be put into fewer files."""


class NoJava(SparkError):
    """Spark needs Java 17 or newer, and there is none."""


def reason(error: BaseException) -> str:
    """Return in one line what an error of ours or of Spark's says went wrong."""
    text = str(error)
    if (file := _FILES.search(text)) and (causes := _CAUSES.findall(text)):
        return f"{file[1]}: {' '.join(causes[-1].split())}"
    found = _OURS.findall(text) or _PYTHONS.findall(text)[-1:] or _JAVAS.findall(text)
    return str(found[0] if found else text.strip().partition("\n")[0])
