"""The queue as tables of a lake: DuckLake, Delta or Iceberg, each row once, without Spark.

    from pgqueue.lake import export

    export(url="env:DATABASE_URL", to="/srv/lake", tables_format="ducklake")

Each table has the position of its last row, which is committed together with the rows. So an
interrupted export goes on where the table ends. The room imports neither Django nor Spark.
"""

try:
    import pyarrow
except ImportError as error:
    raise ImportError(
        "pgqueue.lake needs pyarrow: pip install 'pgqueue[ducklake]', 'pgqueue[delta]' or "
        "'pgqueue[iceberg]'."
    ) from error

from pgqueue.arrow.errors import MissingPackage
from pgqueue.lake.errors import (
    CatalogUnreachable,
    CommitConflict,
    LakeFailed,
    NoTable,
    OtherSource,
    UnknownFormat,
)
from pgqueue.lake.event_tables import EventField, EventTable, event_table
from pgqueue.lake.exporting import LakeExport, export
from pgqueue.lake.formats import FORMATS, Lake, opened

del pyarrow

__all__ = [
    "FORMATS",
    "CatalogUnreachable",
    "CommitConflict",
    "EventField",
    "EventTable",
    "Lake",
    "LakeExport",
    "LakeFailed",
    "MissingPackage",
    "NoTable",
    "OtherSource",
    "UnknownFormat",
    "event_table",
    "export",
    "opened",
]
