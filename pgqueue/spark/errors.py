"""What goes wrong between Spark and the database.

Spark shows an error of a Python data source inside its own, after a traceback: so each says in one
line which option or table it is about, and what to do.
"""

from pgqueue.exceptions import PGQueueError


class SparkError(PGQueueError):
    """The data source can't do this."""


class InvalidOption(SparkError):
    """An option of the data source has an unknown name, or a value that can't be."""


class SnapshotGone(SparkError):
    """The snapshot that the partitions of this read share has ended: load it again."""


class TableChanged(SparkError):
    """A table was dropped or rewritten after this read was planned: load it again."""


class DataLoss(SparkError):
    """Retention has removed history that this stream has not read."""


class OtherCluster(SparkError):
    """The transaction numbers of a checkpoint or of history are not those of this cluster."""


class NoJava(SparkError):
    """Spark needs Java 17 or newer, and there is none."""
