"""A process of sessions that claim and settle, until no message is left.

    python -m tests.benchmarks.harness.claimers THREADS LIMIT

Each thread has a session. The process prints "ready" and waits for a line. At the end it prints how
many claims it made, how many messages they had, and the seconds that this took, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import django

from pgqueue.database.sql_files import load

SQL = load("tests.benchmarks.harness.claimers")


def work(limit: int, ready: Barrier, go: Barrier) -> tuple[int, int]:
    """Claim and settle; return the numbers of claims and of messages."""
    claims = done = 0
    with connect("default", name="claimer") as connection:
        lanes = FreeClaims(connection)
        ready.wait()
        go.wait()
        while True:
            leased = lanes.claim(limit)
            if leased:
                settle.complete(connection, [settle.Done(each, None, 0.0, 0.0) for each in leased])
                claims, done = claims + 1, done + len(leased)
            elif connection.execute(SQL["left"]).fetchone() != (True,):
                return claims, done


def main(threads: int, limit: int) -> None:
    """Work with so many sessions."""
    ready, go = Barrier(threads + 1), Barrier(threads + 1)
    with ThreadPoolExecutor(threads) as pool:
        each = [pool.submit(work, limit, ready, go) for _ in range(threads)]
        ready.wait(60)
        print("ready", flush=True)
        sys.stdin.readline()
        go.wait(60)
        began = time.monotonic()
        found = [one.result() for one in each]
        took = time.monotonic() - began
    print(json.dumps([*(sum(counts) for counts in zip(*found, strict=True)), took]), flush=True)


if __name__ == "__main__":
    django.setup()
    from pgqueue.database.connections import connect
    from pgqueue.engine import settle
    from tests.claims import FreeClaims

    main(*map(int, sys.argv[1:]))
