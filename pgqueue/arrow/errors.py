"""The errors of reads and exports of the queue's tables.

Each error names in one line its option or table, and the remedy. Spark shows it inside an error of
its own, after a traceback.
"""

from pgqueue.exceptions import PGQueueError


class PipelineError(PGQueueError):
    """A read, a write or an export of the queue's tables is refused, or fails."""


class InvalidOption(PipelineError):
    """An option of the data source has an unknown name or an invalid value."""


class SnapshotGone(PipelineError):
    """The snapshot that the partitions of this read share has ended: load the table again."""


class TableChanged(PipelineError):
    """Rows were dropped or rewritten after this read was planned: load the table again."""


class DataLoss(PipelineError):
    """Retention has removed rows that this stream, or a read after a position, has not read."""


class OtherCluster(PipelineError):
    """A checkpoint, an export or a plan is of another database, or of a later state of this one."""


class ExportConflict(PipelineError):
    """Two exports write to one target, or the target's files and its checkpoint differ."""


class UnknownTarget(PipelineError):
    """No export was made to this folder."""


class MissingPackage(PipelineError):
    """A package that an extra brings is not installed, or has another version."""
