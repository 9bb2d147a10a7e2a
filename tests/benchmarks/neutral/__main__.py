"""Play the scenarios of the neutral benchmark; print a table, and write it if asked."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.harness import pages, results
from tests.benchmarks.harness.machine import Machine, described
from tests.benchmarks.harness.report import Round, report_of
from tests.benchmarks.neutral import table
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
WARM_UP = 0.5
"""How much of a phase's time passes before the first one."""
START_S = 60.0
END_S = 10.0


class Adapter:
    """The process of an adapter, and what it says."""

    def __init__(self, system: str, server: Server, options: argparse.Namespace) -> None:
        self.descriptor: dict[str, Any] = {}
        self.samples: list[tuple[float, str, float]] = []
        self._command = [sys.executable, "-m", MODULES[system]]
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
    options = options_of(sys.argv[1:])
    figures: dict[str, float] = {}
    versions: dict[str, str] = {}
    on: Machine = {}
    for number, system in enumerate(options.systems):
        with _serving(f"neutral-{number}", system) as server:
            on = on or described(partial(_setting, server))
            versions[system], found = _played(system, server, options)
            figures |= found
    report = report_of(
        "neutral", [Round(figures, {})], on=on, minutes=options.minutes, remarks=versions
    )
    print("\n".join(table.lines(report)))
    if options.write:
        results.write([report])
        pages.write([report])
    return 0


@contextmanager
def _serving(name: str, system: str) -> Iterator[Server]:
    """Have a server with the settings of that benchmark, and a database for the system."""
    with home(name) as folder:
        server = Server(folder)
        server.settings |= SETTINGS
        server.make_cluster()
        server.start()
        try:
            with closing(server.connect(dbname="postgres")) as connection:
                connection.execute(f"CREATE DATABASE {system}_bench")
            yield server
        finally:
            server.stop("immediate")


def _setting(server: Server, name: str) -> str:
    with closing(server.connect(dbname="postgres")) as connection:
        [(value,)] = connection.execute("SELECT current_setting(%s)", [name]).fetchall()
        return str(value)


def _played(
    system: str, server: Server, options: argparse.Namespace
) -> tuple[str, dict[str, float]]:
    """Return the system with its version, and the figures of all phases by their names."""
    adapter = Adapter(system, server, options)
    figures: dict[str, float] = {}
    try:
        adapter.wait_until_it_works()
        # Not counted, as its `warmup` is not. By the end of that one autovacuum has analyzed the
        # tables; here a whole phase would run before autovacuum's first look.
        time.sleep(options.minutes * WARM_UP * 60)
        with closing(server.connect(dbname=f"{system}_bench")) as connection:
            connection.execute("ANALYZE")
        for phase in options.phases:
            for figure, value in _phase(phase, system, server, adapter, options).items():
                figures[table.name_of(system, figure, phase)] = value
        return f"{system} {adapter.descriptor['version']}", figures
    finally:
        adapter.stop()
        print(adapter.errors()[-1000:], file=sys.stderr)


def _phase(
    name: str, system: str, server: Server, adapter: Adapter, options: argparse.Namespace
) -> dict[str, float]:
    print(f"{system}: {name}, {options.minutes:g} minutes", file=sys.stderr)
    tables: list[str] = adapter.descriptor["event_tables"]
    meddling = Meddling(server, f"{system}_bench", tables[0], adapter.restart)
    began = time.monotonic()
    PHASES[name](meddling, options.minutes * 60)
    values: dict[str, list[float]] = defaultdict(list)
    for at, metric, value in adapter.samples:
        if at >= began + options.sample_every:
            values[metric].append(value)
    with closing(server.connect(dbname=f"{system}_bench")) as connection:
        [(dead,)] = connection.execute(DEAD).fetchall()
    found = {
        "done_per_s": _of(values["completion_rate"], median),
        "p99_ms": _of(values["claim_p99_ms"], median),
        "depth": _of(values["queue_depth"], max),
        "dead": float(dead),
    }
    print(f"  {found}", file=sys.stderr)
    return {figure: value for figure, value in found.items() if value is not None}


def _of(values: Sequence[float], of: Callable[[Sequence[float]], float]) -> float | None:
    return of(values) if values else None


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; exit with 2 if they do not fit together."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.neutral")
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--phase", dest="phases", action="append", choices=PHASES)
    parser.add_argument("--minutes", type=float, default=0.8, metavar="N", help="of a phase (0.8)")
    parser.add_argument("--rate", type=float, default=800.0, help="messages a second (800)")
    parser.add_argument("--workers", type=int, default=32, help="runs at once (32)")
    parser.add_argument("--sample-every", type=float, default=2.0, metavar="S", help="(2)")
    parser.add_argument(
        "--write", action="store_true", help="to RESULTS.md, results.json and docs/benchmarks.md"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.systems) - set(MODULES):
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    if options.write and (options.systems or options.phases):
        parser.error("--write needs all systems and phases: name none of them.")
    options.systems = options.systems or list(MODULES)
    options.phases = options.phases or list(PHASES)
    return options


if __name__ == "__main__":
    sys.exit(main())
