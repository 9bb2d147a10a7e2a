"""Hold a snapshot for the partitions of one read.

Other sessions can import a snapshot as long as the transaction that exported it is open. Spark
plans a read in a process that it may end at any time. Later it reads the partitions in other
processes, on other machines. So the planner starts a process on the driver's machine that only
holds the transaction. The process ends when no partition has been reading for a minute.

`python -m pgqueue.arrow.holding` is that process. It reads the URL of the database from its
standard input, and prints the snapshot's identifier.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psycopg

from pgqueue.arrow.errors import PipelineError
from pgqueue.arrow.urls import connect
from pgqueue.database.sql_files import load

SQL = load("pgqueue.arrow.holding")
LOOK = 5.0
"""Seconds between two counts of the readers."""


def hold(url: str, *, idle: float) -> str:
    """Start a process that holds a new snapshot; return the snapshot's identifier.

    Args:
        url: see `urls.resolve`.
        idle: seconds without a reader after which the snapshot ends.

    Raises:
        PipelineError: the process did not start, or the server exports no snapshot.
    """
    holder = subprocess.Popen(
        [sys.executable, "-m", "pgqueue.arrow.holding"],
        # Only the path of this process has the files of --py-files.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert holder.stdin is not None  # noqa: S101
    assert holder.stdout is not None  # noqa: S101
    with holder.stdin as given, holder.stdout as answers:
        json.dump({"url": url, "idle": idle}, given)
        given.close()
        answer = json.loads(answers.readline() or '{"error": "the process that holds it died"}')
    holder.wait()
    if "error" in answer:
        raise PipelineError(
            f"The server exports no snapshot: {answer['error']}. Set numPartitions to 1."
        )
    return str(answer["snapshot"])


def name_of_readers(snapshot: str) -> str:
    """Return the application_name of the sessions that import a snapshot."""
    return f"pgqueue spark {snapshot}"


def main() -> None:
    """Export a snapshot, print its identifier, and hold the snapshot while it has readers."""
    given = json.load(sys.stdin)
    if os.fork():
        return  # The planner must not have to wait for a child.
    try:
        connection = connect(given["url"], name="snapshot")
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection, connection.transaction():
            connection.execute(SQL["prepare"])
            [(snapshot,)] = connection.execute(SQL["export"]).fetchall()
            print(json.dumps({"snapshot": snapshot}), flush=True)
            _hold(connection, snapshot, given["idle"])
    except (psycopg.Error, PipelineError) as error:
        print(json.dumps({"error": str(error).strip()}), flush=True)


def _hold(connection: psycopg.Connection[tuple[int]], snapshot: str, idle: float) -> None:
    read_at = time.monotonic()
    while time.monotonic() - read_at < idle:
        time.sleep(min(LOOK, idle / 4))
        connection.execute(SQL["look_again"])
        [(readers,)] = connection.execute(
            SQL["readers"], {"name": name_of_readers(snapshot)}
        ).fetchall()
        if readers:
            read_at = time.monotonic()


if __name__ == "__main__":
    main()
