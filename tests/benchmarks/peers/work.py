"""What the tasks do, the same for every peer. Each message brings its number."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

NAP = 0.005  # seconds
AT_ONCE = 50
"""How many tasks may wait at once, of each peer whose tasks cost it a thread or a connection: it is
told so where they nap, and has its own best number otherwise. With 100 none ran a tenth more."""
AT_ONCE_IN_A_LOOP = 500
"""The same, of each process of a peer whose tasks are cheap to wait."""

THREADS = 8
"""Of each process that enqueues beside others."""

STEPS = 3
"""Of each workflow."""

LEASE = float(os.environ.get("PEERS_LEASE", 0))
"""Seconds that a worker may be silent; 0 where no worker is going to be killed. Then a peer is
to do whatever its documentation has against that, and else what is fastest."""

_ledger = threading.local()


def nothing(number: int) -> None:
    """Do nothing."""


def nap(number: int) -> None:
    """Wait, as for a service."""
    time.sleep(NAP)


async def anap(number: int) -> None:
    """Wait, as for a service, in an event loop."""
    await asyncio.sleep(NAP)


def query(number: int) -> None:
    """Ask one question through Django's ORM."""
    from testproject.shop.models import Product

    Product.objects.filter(pk=number).exists()


def note(number: int) -> None:
    """Leave an effect: the number and the time, in a ledger outside of every queue."""
    at = time.time()
    if not hasattr(_ledger, "connection"):
        _ledger.connection = _connect()
    note_with(_ledger.connection, number, at)


def note_with(connection: Any, number: int, at: float = 0) -> None:
    """Leave an effect through a connection, or a cursor, of the task's own."""
    connection.execute("INSERT INTO peers_ledger VALUES (%s, %s)", [number, at])


def _connect() -> Any:
    import psycopg

    # What a killed client has committed stays; it need not wait for the disk.
    return psycopg.connect(
        os.environ["PEERS_DSN"], autocommit=True, options="-c synchronous_commit=off"
    )
