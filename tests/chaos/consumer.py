"""Receive messages of the channel `pulled` until told to stop; their effects happen exactly once.

Run as `python -m tests.chaos.consumer SEED`.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import Any

import django


def consume(receiver: Any, chance: random.Random) -> None:
    """Settle what comes, in each way there is, most of it well."""
    from django.db import transaction

    from pgqueue.exceptions import LeaseLost
    from tests.chaos.tasks import leave

    for delivery in receiver:
        end = chance.choices(["complete", "release", "retry", "defer"], weights=[12, 1, 1, 1])[0]
        try:
            if end != "complete":
                getattr(delivery, end)(*[0.1] * (end != "release"))
                continue
            with transaction.atomic():
                leave(delivery, delivery.payload["args"][0])
                delivery.checkpoint(progress="nearly")
                delivery.extend()
                delivery.complete()
        except LeaseLost as error:
            print(error, file=sys.stderr, flush=True)


def main() -> None:
    import psycopg
    from django.db import DatabaseError, InterfaceError, connection

    from pgqueue.tasks.receiving import receive

    chance = random.Random(sys.argv[1])
    receivers: list[Any] = []
    stopped = []

    def stop(*_: object) -> None:
        stopped.append(True)
        for receiver in receivers:
            receiver.close()

    signal.signal(signal.SIGTERM, stop)
    while not stopped:
        try:
            with receive("pulled", limit=10, wait=True) as receiver:
                receivers[:] = [receiver]
                if not stopped:
                    consume(receiver, chance)
        except (psycopg.OperationalError, DatabaseError, InterfaceError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            connection.close()
            time.sleep(0.1)


if __name__ == "__main__":
    django.setup()
    main()
