"""The progress of one streaming query, as a listener hears of it batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from pgqueue.arrow.lag import Offset, offset_of, place_of

SIZE = "bytes"
"""The name of an observed metric that is counted, since Spark tells no size of Python's rows."""


@dataclass(frozen=True)
class FollowedQuery:
    """The progress of a query since its listener was added.

    Attributes:
        name: its name; its id if it has no name.
        rows: the rows of all batches.
        size: the sum of the metric `bytes` that the query observes; None: it observes none.
        batch: the number of the last batch; None: there was none.
        seconds: the duration of the last batch.
        offsets: the end of the last batch, by the log that is read.
        is_running: False: the query has ended with an error.
    """

    name: str
    rows: int = 0
    size: int | None = None
    batch: int | None = None
    seconds: float = 0.0
    offsets: Mapping[str, Offset] = field(default_factory=dict)
    is_running: bool = True

    @property
    def places(self) -> Mapping[str, int]:
        """The last position of events, or the last transaction of history, by the log."""
        return {log: place_of(offset)[1] for log, offset in self.offsets.items()}

    def after(self, progress: StreamingQueryProgress) -> FollowedQuery:
        """Return the progress after one more batch."""
        sizes = [
            row[SIZE]
            for row in progress.observedMetrics.values()
            if SIZE in row and row[SIZE] is not None
        ]
        return replace(
            self,
            rows=self.rows + (progress.numInputRows or 0),
            size=(self.size or 0) + int(sum(sizes)) if sizes else self.size,
            batch=progress.batchId,
            seconds=progress.batchDuration / 1000,
            offsets={**self.offsets, **_reached(progress.sources)},
        )


def _reached(sources: Sequence[SourceProgress]) -> dict[str, Offset]:
    """Return the least offset of each log: a query may read a log twice."""
    found: dict[str, Offset] = {}
    for each in sources:
        if (offset := offset_of(each.endOffset)) is None:
            continue
        log, place = place_of(offset)
        if log not in found or place < place_of(found[log])[1]:
            found[log] = offset
    return found
