"""The errors of exports to a lake; `pgqueue.arrow.errors` has the errors of every export."""

from pgqueue.arrow.errors import PipelineError


class MissingPackage(PipelineError):
    """The package that writes a format is not installed, or has another version."""


class UnknownFormat(PipelineError):
    """A format of tables has an unknown name."""


class CatalogUnreachable(PipelineError):
    """The catalog of a lake does not open."""
