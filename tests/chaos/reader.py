"""Read for a group until told to stop, and leave a row for each event.

Run as `python -m tests.chaos.reader GROUP PARTITIONS LEASE`: the group `atomic` in one transaction
with its cursor, `batches` in lists, also atomically, each other one plainly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import django

BATCH = 25


def leave(group: str, event: Any) -> None:
    """Leave the row that the audit counts; then do what the event asks for, if it is the first."""
    from django.db import connection

    payload = event.payload
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO chaos_handled ("group", position, number, pid) VALUES (%s, %s, %s, %s)',
            [group, event.position, payload["number"], os.getpid()],
        )
    if "rests" in payload and not (began := Path(f"{payload['file']} began {group}")).exists():
        began.touch()
        time.sleep(payload["rests"])
        Path(f"{payload['file']} rested {group}").touch()


def main() -> None:
    from pgqueue.events.consumers import consumer
    from pgqueue.events.consuming import GroupReader

    group, partitions, lease = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

    def handle(event: Any) -> None:
        leave(group, event)

    def handle_some(events: Sequence[Any]) -> None:
        for event in events:
            leave(group, event)

    declare = consumer(
        group,
        batch=BATCH if group == "batches" else None,
        atomic=group in ("atomic", "batches"),
        partitions=partitions,
        start="beginning",
        # A handler that meets a fault is charged a failure, which is not what the audit asks about.
        max_attempts=1000,
        backoff=[0.1],
    )
    reader = GroupReader(
        declare(handle_some if group == "batches" else handle), lease=timedelta(seconds=lease)
    )
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    reader.start()
    while not stopped.wait(0.1):
        if not reader.is_alive():
            sys.exit("its thread ended")
    reader.stop()
    sys.exit(0 if reader.stopped(timedelta(seconds=20)) else "it did not stop")


if __name__ == "__main__":
    django.setup()
    # A handler of `__main__` is refused: the functions are declared in the module by its name.
    import_module("tests.chaos.reader").main()
