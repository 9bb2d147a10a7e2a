"""Everybody who takes part in a proof."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg

from pgqueue.engine import route
from tests.chaos.harness import ledger
from tests.chaos.harness.disk import Disk
from tests.chaos.harness.logstage import IS_READ, LEFT, LogStage
from tests.chaos.harness.pooler import Pooler
from tests.chaos.harness.processes import Process
from tests.chaos.harness.server import Server
from tests.chaos.harness.stage import SEED, _with_clock, stop
from tests.chaos.harness.standby import following, trailing
from tests.eventually import eventually
from tests.proof import mutations
from tests.proof.dump import dump
from tests.proof.operations import invoked
from tests.system import children

TICKS = "SELECT bool_and(next_at > clock_timestamp() - interval '5 s') FROM pgqueue_schedule"
"""Whether no schedule is behind."""
TABLES = Path(__file__).parent / "tables.sql"
LEASE = 3.0
CLOCKS = (0, 3600, 0, -3600)
"""Seconds by which the clocks of makers are wrong."""


class ProofStage(LogStage):
    """A server with workers, producers, publishers, readers and observers, who all write logs.

    Attributes:
        makers: the producers, publishers and observers, by their modules and numbers.
        pooler: leads to the proxy, if there is one.

    Args:
        disk: where the first server's tables are.
        logs: the folder of the logs and the dump.
        mutation: the name of a fault that is planted in all processes; "": none.
    """

    def __init__(
        self, server: Server, folder: Path, logs: Path, disk: Disk, *, mutation: str = ""
    ) -> None:
        super().__init__(server, folder, "proof")
        self.logs = logs
        self.disk = disk
        self.front = self.proxy()
        self.pooler = Pooler(server, target=self.front.port)
        self._standbys = ExitStack()
        self.environment = {
            "DJANGO_SETTINGS_MODULE": "tests.proof.settings",
            "PROOF_LOG": str(logs),
            **mutations.environment(mutation),
            "PGQUEUE_LEASE": str(LEASE),
        }
        self.makers: dict[tuple[str, int], Process] = {}

    def prepare(self) -> None:
        """Make the tables of the proof, and start the pooler."""
        self.pooler.start()
        with closing(self.server.connect()) as connection:
            connection.execute(TABLES.read_text())

    def worker(self, *arguments: str, within: float = 120, **options: Any) -> Process:
        """Start a worker; it may take long, since the machine may have much else to do."""
        return super().worker(*arguments, within=within, **options)

    def make(self, module: str, number: int, *, rate: float) -> None:
        """Start a producer, a publisher or an observer; one that was killed gets a successor.

        By their numbers, some of them work through the pooler, and some have a wrong clock.

        Args:
            number: of its first message; no two processes have the same.
        """
        name = f"{module}-{number}"
        program = _with_clock(CLOCKS[number % len(CLOCKS)], f"tests.proof.{module}")
        arguments = [*program, str(number), str(rate), SEED]
        port = self.pooler.port if number % 2 else self.front.port
        self.makers[module, number] = self._process(name, arguments, port, {}, None)

    def follower(self) -> Server:
        """Return a synchronous standby of the server, which lives until the end."""
        name = f"standby_{self.server.port}"
        return self._standbys.enter_context(following(self.server, name))

    def trailer(self) -> Server:
        """Return a standby that no commit of the server waits for; it lives until the end."""
        name = f"standby_{self.server.port}"
        return self._standbys.enter_context(trailing(self.server, name))

    def close(self) -> None:
        """End everybody."""
        super().close()
        self._standbys.close()
        self.pooler.kill()

    def close_all(self, *, within: float = 90) -> None:
        """Let everything end, stop all processes, and dump the tables.

        A message that does not end is no error here: the checker finds it in the dump.
        """
        waiting = self._stop_makers()
        try:
            eventually(self._has_ended, within=within)
        except AssertionError:
            waiting.append({"what": f"{self._left()}"})
        for each in self.living():
            if not each.is_alive:
                waiting.append({"what": f"a worker that ended by itself: {each.log[-500:]}"})
        invoked("stop", db=time.time()).say("ok")
        pids = [pid for each in self.living() for pid in (each.pid, *children(each.pid))]
        stop([each for each in (*self.living(), *self.others) if each.is_alive])
        with closing(self.server.connect()) as connection:
            route.tidy(connection)
            waiting += self._of_workers(connection, pids)
            dump(connection, self.logs / "dump.json", waiting=waiting)

    def _stop_makers(self) -> list[dict[str, Any]]:
        """Stop the makers of load; return a row for each one that ended with an error."""
        makers = [each for each in self.makers.values() if each.is_alive]
        self.makers.clear()
        for each in makers:
            each.signal(signal.SIGTERM)
        ends = {each: _end(each) for each in makers}
        # One that was started just now is ended by the signal.
        failed = [each for each, end in ends.items() if end not in (0, -signal.SIGTERM)]
        return [{"what": f"{e.name} ended with {ends[e]}: {e.log[-500:]}"} for e in failed]

    def _has_ended(self) -> bool:
        with closing(self.server.connect()) as connection:
            return (
                not ledger.leftovers(connection, of_workers=True)
                and self.ask(IS_READ) == (True,)
                and self.ask(TICKS) == (True,)
            )

    def _left(self) -> Any:
        with closing(self.server.connect()) as connection:
            left = ledger.leftovers(connection, of_workers=True)
            return left, ledger.what_is_left(connection), self.ask(LEFT)

    def _of_workers(
        self, connection: psycopg.Connection[Any], pids: list[int]
    ) -> list[dict[str, Any]]:
        """Return a row for each trace of a worker that should be gone."""
        rows = connection.execute("SELECT pid FROM pgqueue_worker WHERE pid = ANY (%s)", [pids])
        found = [f"the row of the stopped worker {pid}" for (pid,) in rows]
        found += [
            f"a lane that has work and was not marked ({each.name})"
            for each in self.workers
            if "were not marked runnable" in each.log
        ]
        return [{"what": what} for what in found]


def _end(process: Process) -> int:
    """Wait for the end of a process that was asked to stop, and return its status."""
    try:
        return process.exit_status(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.exit_status()
