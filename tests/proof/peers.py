"""Prove another queue by the same checker: its workers are killed again and again.

Run as `python -m pgqueue.embedded --throwaway -- python -m tests.proof.peers huey` in the
environment of the peers. The benchmarks have the adapters. A task leaves a row of `peers_ledger`,
which becomes a run and an effect here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import environ
import psycopg
from psycopg.conninfo import make_conninfo

from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.group import Group
from tests.benchmarks.peers.peer import module
from tests.proof.checker.account import account_of
from tests.proof.checker.anomaly import shortest
from tests.proof.checker.rules import check
from tests.proof.operations import invoked
from tests.proof.producer import described

MESSAGES, KILLS, LEASE = 10_000, 4, 2.0
PATIENCE = 60.0
TABLES = "CREATE TABLE peers_ledger (number bigint, at float8)"


def run(name: str, logs: Path) -> None:
    """Enqueue messages, kill the workers of a peer some times, and dump all messages."""
    found = environ.Env().db("DATABASE_URL")
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    known = {name: found[key] for name, key in names.items() if found[key]}
    dsn = make_conninfo(dbname=found["NAME"], **known)
    os.environ |= {"PEERS_DSN": dsn, "PEERS_LEASE": str(LEASE), "PROOF_LOG": str(logs)}
    peer = import_module(module(name)).PEER
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        connection.execute(TABLES)
        peer.install()
        for number in range(MESSAGES):
            operation = invoked("enqueue", messages=[described(number, "plain")])
            peer.enqueue("note", number)
            operation.say("ok")
        for _ in range(KILLS):
            _work(peer, connection, until=lambda left: left < MESSAGES)
        _work(peer, connection, until=lambda left: left == 0)
        rows = connection.execute("SELECT number, at FROM peers_ledger ORDER BY at").fetchall()
        left = _left(peer, connection)
    _dump(logs, rows, waiting=left)


def _work(peer: Any, connection: Any, *, until: Any) -> None:
    """Have workers until enough is done, or nothing more is for long; then kill them."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Group(command, environment=os.environ, cwd=ROOT))
            for command in peer.workers("note", lease=LEASE)
        ]
        ends = time.monotonic() + PATIENCE
        before = connection.execute("SELECT count(*) FROM peers_ledger").fetchone()
        while time.monotonic() < ends:
            time.sleep(0.05)
            has_begun = connection.execute("SELECT count(*) FROM peers_ledger").fetchone() > before
            if has_begun and until(_left(peer, connection)):
                break
        time.sleep(0.3)
        fault = invoked("fault", name="kill the workers", crashes=False)
        for worker in workers:
            worker.kill()
        fault.say("ok")


def _left(peer: Any, connection: Any) -> int:
    query = f"SELECT count(*) FROM {peer.unfinished}"  # noqa: S608
    [count] = connection.execute(query.encode()).fetchone()
    return int(count)


def _dump(logs: Path, rows: list[tuple[int, float]], *, waiting: int) -> None:
    """Write each row of the ledger as a run and as an effect, by the machine's clock."""
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.time()
    attempts: dict[int, int] = defaultdict(int)
    effects = []
    with (logs / "ledger.jsonl").open("w") as log:
        for place, (number, at) in enumerate(rows):
            attempts[number] += 1
            run = {"op": f"ledger:{place}", "do": "run", "at": at + since_boot}
            of = {"number": number, "attempt": attempts[number]}
            for kind in ("invoke", "ok"):
                log.write(json.dumps({**run, "kind": kind, **of}) + "\n")
            effects.append({"place": place, "what": "task", **of})
    ended = {"end": "succeeded", "failures": 0, "lost": 0, "claimed_at": None}
    messages = [{"number": each, "attempt": times, **ended} for each, times in attempts.items()]
    left = [{"what": f"{waiting} messages"}] if waiting else []
    tables = {"messages": messages, "effects": effects, "waiting": left}
    (logs / "dump.json").write_text(json.dumps(tables))


def main(name: str) -> int:
    """Run it, and print the anomalies; return 1 if the checker finds none."""
    with tempfile.TemporaryDirectory() as folder:
        run(name, Path(folder))
        found = check(account_of(Path(folder)))
    for promise, anomalies in found.items():
        for count, best in shortest(anomalies).values():
            print(f"{promise}: {count} times. {best.words}", *best.history(), sep="\n    ")
    return 0 if any(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
