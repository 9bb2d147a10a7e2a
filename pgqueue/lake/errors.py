"""The errors of exports to a lake; `pgqueue.arrow.errors` has the errors of every export."""

from pgqueue.arrow.errors import ExportConflict, PipelineError


class UnknownFormat(PipelineError):
    """A format of tables has an unknown name."""


class CatalogUnreachable(PipelineError):
    """The catalog of a lake does not open, or is of another lake."""


class LakeFailed(PipelineError):
    """The writer of a format, or the place of a lake, has failed: a full disk, a lost catalog."""


class CommitConflict(ExportConflict):
    """Another commit to the lake came first, and this one has written nothing."""


class NoTable(PipelineError):
    """A lake lacks a table that is read."""


class OtherSource(PipelineError):
    """A lake of several sources gets rows without a source, or a lake of one gets a source."""
