"""Publish and read in a process of its own: with pgqueue, and by the bare loops of a ceiling.

The bare publisher sends ready-made lines by COPY, and commits them; the bare reader sequences with
the engine's statement, reads, parses each payload and moves a cursor: the same batches, one
connection each, and nothing else: no leases, no filters, no bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pgqueue.database.connections import connect
from pgqueue.engine import log, publish, sequence
from pgqueue.engine.culprits import WHOLE
from pgqueue.engine.values import Connection
from tests.benchmarks.harness.database import ROOT

TOPIC = "bench.happened"
SHORT, KIB = 200, 1024
"""Bytes of a payload, as JSON."""
CHUNK = 1000
"""Events of a transaction."""
BATCH = 500
MOST_AHEAD = 20_000
"""Events that one who publishes for long is ahead of the group, at most."""
NAP = 0.001

READ = """
    SELECT position, topic, key, payload::text, metadata::text, created_at FROM pgqueue_event
    WHERE position > %s ORDER BY position LIMIT %s
"""
COMMIT = "UPDATE pgqueue_cursor SET position = %s, updated_at = statement_timestamp()"
TAKE = "UPDATE pgqueue_cursor SET reader_id = gen_random_uuid()"
HANDLED = """SELECT min(position) FROM pgqueue_cursor WHERE "group" <> ''"""


@dataclass(frozen=True)
class Published:
    """How long it took, and how many events the group had handled by then."""

    seconds: float
    handled: int


def payload(size: int) -> dict[str, Any]:
    """Return a payload that takes so many bytes."""
    return {"order_id": 7, "text": "x" * (size - len('{"order_id": 7, "text": ""}'))}


def command(role: str, *, bare: bool = False, **options: float) -> list[str]:
    """Return what runs a publisher or a reader."""
    named = [f"--{name}={value}" for name, value in options.items()]
    own = [sys.executable, "-m", "tests.benchmarks.harness.eventlog", role, *named]
    return [*own, "--bare"] if bare else own


def publish_elsewhere(*, count: int, size: int, bare: bool, **environment: str) -> Published:
    """Publish in another process, as fast as it can."""
    ran = subprocess.run(
        command("publish", bare=bare, count=count, size=size),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise RuntimeError(f"The publisher failed:\n{ran.stderr}")
    return Published(**json.loads(ran.stdout))


def _publish(store: Callable[[int], None], options: argparse.Namespace) -> Published:
    with connect("default", name="benchmark") as session:
        began = time.monotonic()
        stored = 0
        while stored < options.count and time.monotonic() - began < options.seconds:
            store(min(CHUNK, options.count - stored))
            stored += CHUNK
            while options.seconds != float("inf") and stored - _handled(session) > MOST_AHEAD:
                time.sleep(NAP)
        return Published(time.monotonic() - began, _handled(session))


def _handled(session: Connection) -> int:
    row = session.execute(HANDLED).fetchone()
    return int(row[0]) if row else 0


def _ours(size: int) -> Callable[[int], None]:
    from pgqueue import publish_many

    events = [(TOPIC, payload(size))] * CHUNK
    return lambda count: void(publish_many(events[:count]))


def _bare(size: int) -> Callable[[int], None]:
    line = f"{TOPIC}\t\t{json.dumps(payload(size))}\t{{}}\n"
    connection = connect("default", name="ceiling")

    def store(count: int) -> None:
        with connection.cursor() as cursor, cursor.copy(publish.SQL["copy"]) as copy:
            copy.write(line * count)

    return store


def void(_: object) -> None:
    """Leave out what a call returns."""


def _read(count: int) -> None:
    with connect("default", name="ceiling") as connection:
        connection.execute(TAKE)
        position = 0
        while position < count:
            if log.is_anything_waiting(connection):
                with connection.transaction():
                    connection.execute(sequence.SQL["lead"])
                    connection.execute(
                        sequence.SQL["move"], {**WHOLE._asdict(), "limit": sequence.BATCH}
                    )
            rows = connection.execute(READ, [position, BATCH]).fetchall()
            if not rows:
                time.sleep(NAP)
                continue
            for row in rows:
                json.loads(row[3])
            position = rows[-1][0]
            connection.execute(COMMIT, [position])
        # Until it is stopped, as a group's reader.
        time.sleep(3600)


def main() -> None:
    """Publish and say how long it took; or read until all is read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["publish", "read"])
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--size", type=int, default=SHORT)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()

    import django

    django.setup()
    if options.role == "read":
        _read(options.count)
    else:
        store = (_bare if options.bare else _ours)(options.size)
        print(json.dumps(asdict(_publish(store, options))))


if __name__ == "__main__":
    main()
