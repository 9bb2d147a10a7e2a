"""Play the scenarios of the neutral benchmark, and print a table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.harness.results import markdown
from tests.benchmarks.neutral.scenarios import PHASES, Meddling
from tests.chaos.harness.server import Server, home, url

ROOT = Path(__file__).resolve().parents[3]
MODULES = {
    "pgqueue": "tests.benchmarks.neutral.pgqueue_bench.main",
    "procrastinate": "tests.benchmarks.neutral.adapters.procrastinate",
    "awa": "tests.benchmarks.neutral.adapters.awa",
}
SETTINGS = {
    "max_connections": "400",
    "shared_buffers": "256MB",
    "work_mem": "8MB",
    "autovacuum_naptime": "60s",
    "autovacuum_vacuum_cost_delay": "2ms",
    "wal_level": "replica",
}
"""Of that benchmark's postgres.conf."""
DEAD = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables"
START_S = 60.0
END_S = 10.0


class Adapter:
    """The process of an adapter, and what it says."""

    def __init__(self, system: str, server: Server, options: argparse.Namespace) -> None:
        self.descriptor: dict[str, Any] = {}
        self.samples: list[tuple[float, str, float]] = []
        python = sys.executable if system == "pgqueue" else options.python
        self._command = [python, "-m", MODULES[system]]
        self._environment = {
            **os.environ,
            "DATABASE_URL": url(server.port, dbname=f"{system}_bench"),
            "SCENARIO": "long_horizon",
            "PRODUCER_RATE": str(options.rate),
            "WORKER_COUNT": str(options.workers),
            "SAMPLE_EVERY_S": str(options.sample_every),
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=self._environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=[self._process], daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            record = json.loads(line)
            if record["kind"] == "descriptor":
                self.descriptor = record
            else:
                self.samples.append((time.monotonic(), record["metric"], record["value"]))

    def wait_until_it_works(self) -> None:
        """Return when it has completed something."""
        until = time.monotonic() + START_S
        while not any(metric == "completion_rate" and value for _, metric, value in self.samples):
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"The adapter does not work. It said:\n{self.errors()}")
            time.sleep(0.2)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self._process.kill()
        self._process.wait()
        self._start()

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def errors(self) -> str:
        """Return the end of what it wrote to its log."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]


def main() -> int:
    """Play the scenarios for each system, and print a table of all."""
    options = _options()
    rows: list[tuple[str, ...]] = [("system", "phase", "done_per_s", "p99_ms", "depth", "dead")]
    for number, system in enumerate(options.systems or MODULES):
        with home(f"neutral-{number}") as folder:
            rows += _played(system, Server(folder), options)
    print("\n".join(markdown(rows)))
    return 0


def _played(system: str, server: Server, options: argparse.Namespace) -> list[tuple[str, ...]]:
    server.settings |= SETTINGS
    server.make_cluster()
    server.start()
    try:
        with closing(server.connect(dbname="postgres")) as connection:
            connection.execute(f"CREATE DATABASE {system}_bench")
        adapter = Adapter(system, server, options)
        try:
            adapter.wait_until_it_works()
            return [_phase(name, system, server, adapter, options) for name in options.phases]
        finally:
            adapter.stop()
            print(adapter.errors()[-1000:], file=sys.stderr)
    finally:
        server.stop("immediate")


def _phase(
    name: str, system: str, server: Server, adapter: Adapter, options: argparse.Namespace
) -> tuple[str, ...]:
    print(f"{system}: {name}, {options.seconds:g} s", file=sys.stderr)
    tables: list[str] = adapter.descriptor["event_tables"]
    meddling = Meddling(server, f"{system}_bench", tables[0], adapter.restart)
    began = time.monotonic()
    PHASES[name](meddling, options.seconds)
    values: dict[str, list[float]] = defaultdict(list)
    for at, metric, value in adapter.samples:
        if at >= began + options.sample_every:
            values[metric].append(value)
    with closing(server.connect(dbname=f"{system}_bench")) as connection:
        [(dead,)] = connection.execute(DEAD).fetchall()
    return (
        f"{system} {adapter.descriptor['version']}",
        name,
        _shown(values["completion_rate"], median),
        _shown(values["claim_p99_ms"], median),
        _shown(values["queue_depth"], max),
        f"{dead:,}",
    )


def _shown(values: Sequence[float], of: Any) -> str:
    return f"{of(values):,.4g}" if values else "none"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.neutral")
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(MODULES)}")
    parser.add_argument(
        "--python", default=sys.executable, metavar="PATH", help="that has the other queues"
    )
    parser.add_argument("--phase", dest="phases", action="append", choices=PHASES)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="of a phase (60)")
    parser.add_argument("--rate", type=float, default=800.0, help="messages a second (800)")
    parser.add_argument("--workers", type=int, default=32, help="runs at once (32)")
    parser.add_argument("--sample-every", type=float, default=2.0, metavar="S", help="(2)")
    options = parser.parse_args()
    if unknown := set(options.systems) - set(MODULES):
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    options.phases = options.phases or list(PHASES)
    return options


if __name__ == "__main__":
    sys.exit(main())
