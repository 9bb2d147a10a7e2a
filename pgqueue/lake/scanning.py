"""Read a range of rows by DuckDB, if it is installed: it parses a binary COPY without Python.

For rows with all columns of history it reads twice as many a second as `arrow.copying`. If DuckDB
refuses a batch, such as a text that is no UTF-8, `arrow.copying` reads the batch.
"""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import pyarrow as pa
from psycopg.conninfo import make_conninfo

from pgqueue.arrow import redacting
from pgqueue.arrow.copying import arrow_schema
from pgqueue.arrow.options import StreamOptions
from pgqueue.arrow.reading import query
from pgqueue.arrow.urls import resolve
from pgqueue.lake.errors import MissingPackage
from pgqueue.lake.extensions import EXTRA, POSTGRES, attach, duckdb_with, quoted, type_of
from pgqueue.lake.formats import needed, on_one_line
from pgqueue.redaction import Redaction
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)

SETTINGS = {
    "jit": "off",
    "statement_timeout": "0",
    # As `arrow.reading.by_index`: the planner must use indexes, whatever its statistics are.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0",
}


class Scanner:
    """A connection of DuckDB to the queue's database; without DuckDB, it reads nothing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: Any = None
        with suppress(MissingPackage):
            self._db = duckdb_with(POSTGRES)

    def read(self, follow: ModuleType, options: StreamOptions, start: Any, part: Any) -> pa.Table:
        """Return the rows of a range.

        Args:
            follow: `arrow.streaming` or `arrow.eventstream`.

        Raises:
            DataLoss: retention has removed rows of the range.
            OtherCluster: the database is another one, or was restored.
        """
        if self._db is not None:
            try:
                rows = self._scan(follow, options, part)
            except Exception as error:
                # DuckDB's error of a lost connection contains the URL with the password.
                said = on_one_line(error, make_conninfo(resolve(self._url)))
                logger.warning("DuckDB does not read %s, so COPY does: %s", options.name, said)
            else:
                follow.confirm(options, start, part)
                return rows
        found = follow.read(options, start, part)
        return pa.Table.from_batches(found, arrow_schema(options.columns))

    def _scan(self, follow: ModuleType, options: StreamOptions, part: Any) -> pa.Table:
        wanted = redacting.with_tasks(options) if options.redact else options
        schema = arrow_schema(wanted.columns)
        relation, rows, order = follow.source(options, part)
        # A place is for a read that goes on after an outage; this one begins again.
        found = query(wanted, relation, rows, order._replace(place="0")).as_string(None)
        names = ", ".join(f'"{each}"' for each in ("place", *schema.names))
        casts = ", ".join(
            f'CAST("{each.name}" AS {type_of(each)}) AS "{each.name}"' for each in schema
        )
        scan = quoted(f"SELECT * FROM ({found}) AS found ({names})")  # noqa: S608
        scanned = f"SELECT {casts} FROM postgres_query('queue', {scan})"  # noqa: S608
        table = self._query(scanned).cast(schema)
        if not options.redact:
            return table
        redaction = Redaction.from_json(options.redact)
        return pa.Table.from_batches(
            [redacting.redacted(batch, redaction, options.columns) for batch in table.to_batches()],
            arrow_schema(options.columns),
        )

    def _query(self, sql: str) -> pa.Table:
        attach(self._db, self._url, "ATTACH '{}' AS queue (TYPE postgres, READ_ONLY)")
        try:
            self._db.execute("BEGIN")
            for name, value in SETTINGS.items():
                self._db.execute(f"CALL postgres_execute('queue', 'SET LOCAL {name} = {value}')")
            return self._db.execute(sql).to_arrow_table()
        finally:
            with suppress(needed("duckdb", EXTRA).Error):
                self._db.execute("ROLLBACK")
            self._db.execute("DETACH queue")

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
