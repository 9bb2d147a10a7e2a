"""The groups of the log that are measured: `manage.py pgqueue_group run` finds them here."""

import os
import time
from collections.abc import Sequence

from pgqueue import RecordedEvent, consumer

GROUP = "bench"
TIMES = "bench-times"
BATCH = 500


@consumer(GROUP, batch=BATCH, start="beginning")
def look(events: Sequence[RecordedEvent]) -> None:
    """Look at each payload."""
    for event in events:
        if event.payload is None:
            raise ValueError(f"{event} is empty.")


@consumer(TIMES, start="beginning")
def note(event: RecordedEvent) -> None:
    """Write down how long ago it was published, by the clock of this machine."""
    seconds = time.time() - event.payload["at"]
    with open(os.environ["BENCH_TIMES"], "a") as file:
        file.write(f"{seconds}\n")
