"""The faults of the soak, and further ones: servers, makers and readers fail, too."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from pgqueue.engine import event_partitions, partitions
from tests.chaos.harness.proxy import Proxy
from tests.chaos.harness.server import Server, nap
from tests.chaos.soak.faults import Faults
from tests.chaos.soak.fleet import Fleet, signal_all
from tests.eventually import eventually
from tests.proof.operations import invoked, now
from tests.proof.stage import ProofStage
from tests.proof.straggler import Straggler

LONG = """
SELECT w.pid, m.id, m.attempt
FROM pgqueue_message m JOIN pgqueue_worker w ON w.id = m.worker_id
WHERE m.state = 'running' AND m.task = 'tests.proof.tasks.plain' AND w.pid = ANY (%s)
  AND (m.payload -> 'args' ->> 1)::float8 > 2
  AND m.claimed_at > clock_timestamp() - interval '1 second'
LIMIT 1
"""
GOES_ON = "SELECT state, attempt FROM pgqueue_message WHERE id = %s"
CRASHES = {
    *("restart_immediate", "restart_amid_recovery"),
    *("fail_over", "fail_over_asynchronously"),
}
"""Faults after which the server may have forgotten claims of the last moment."""


class ProofFaults(Faults):
    """All faults; each is over when it returns.

    Args:
        only: names of faults; empty: all.
    """

    def __init__(
        self,
        stage: ProofStage,
        fleet: Fleet,
        proxy: Proxy,
        chance: random.Random,
        *,
        only: set[str],
    ) -> None:
        super().__init__(stage, fleet, proxy, chance)
        self._proof = stage
        self._weights |= {
            self.lose_a_machine: 2,
            self.wake_a_zombie: 2,
            self.kill_a_maker: 3,
            self.stop_a_maker: 2,
            self.kill_a_reader: 2,
            self.stop_a_reader: 2,
            self.slow_the_network: 1,
            self.restart_amid_recovery: 1,
            self.restart_the_pooler: 1,
            self.fill_the_disk: 1,
            self.fail_over: 0.5,
            self.fail_over_asynchronously: 0.5,
            self.vacuum_freeze: 1,
            self.maintain_partitions: 1,
        }
        if only:
            self._weights = {each: n for each, n in self._weights.items() if each.__name__ in only}
            missing = only - {each.__name__ for each in self._weights}
            if missing:
                raise SystemExit(f"There is no fault {sorted(missing)}.")

    def shuffled(self) -> list[Callable[[], None]]:
        """Return each fault once, in a random order: a short run meets many kinds."""
        each = list(self._weights)
        self._chance.shuffle(each)
        return each

    def lose_a_machine(self) -> None:
        """Kill all processes of a worker at once; without its first one, others would end well."""
        signal_all(self._fleet.mortal.pids(), signal.SIGKILL)
        self._fleet.kill()

    def wake_a_zombie(self) -> None:
        """Stop a process until another one runs a message of it; then both end their runs."""
        pids = [*self._fleet.mortal.pids(), *self._fleet.veteran.pids()]
        pid, id, attempt = eventually(
            lambda: self._stage.ask(LONG, pids), within=60, what="a task runs for long"
        )
        signal_all([pid], signal.SIGSTOP)
        try:
            eventually(lambda: self._runs_again(id, attempt), within=60, what="it runs again")
        finally:
            signal_all([pid], signal.SIGCONT)

    def _runs_again(self, id: int, attempt: int) -> bool:
        """Return whether a message has another run, or has ended before its process stopped."""
        row = self._stage.ask(GOES_ON, id)
        return row is None or (row[0] == "running" and row[1] > attempt)

    def kill_a_maker(self) -> None:
        """Kill a producer, a publisher or an observer, whose successor the director starts."""
        self._chance.choice(list(self._proof.makers.values())).kill()

    def stop_a_maker(self) -> None:
        chosen = self._chance.choice(list(self._proof.makers.values()))
        chosen.signal(signal.SIGSTOP)
        nap(self._chance.uniform(0.5, 3))
        chosen.signal(signal.SIGCONT)

    def kill_a_reader(self) -> None:
        """Kill a reader of a group, whose successor the director starts."""
        self._proof.lose(self._chance.choice(self._proof.others))

    def stop_a_reader(self) -> None:
        """For longer than its lease lasts, or not."""
        chosen = self._chance.choice(self._proof.others)
        chosen.signal(signal.SIGSTOP)
        nap(self._chance.uniform(0.5, 5))
        chosen.signal(signal.SIGCONT)

    def slow_the_network(self) -> None:
        self._proxy.delay = 0.1
        nap(2)
        self._proxy.delay = 0

    def restart_amid_recovery(self) -> None:
        """Kill the server, and kill it again while it reads its WAL."""
        server = self._stage.server
        server.stop("killed")
        server.begin_to_start()
        nap(self._chance.uniform(0.02, 0.2))
        server.stop("killed")
        # A child that was forked meanwhile may have the shared memory for a moment.
        eventually(lambda: starts(server), within=60, what="the server starts")

    def restart_the_pooler(self) -> None:
        """Kill pgbouncer, through which some makers work."""
        self._proof.pooler.kill()
        nap(self._chance.uniform(0, 2))
        self._proof.pooler.start()

    def fill_the_disk(self) -> None:
        """Leave no room for tables for some seconds. A server that took over has a large disk."""
        self._proof.disk.fill()
        nap(self._chance.uniform(1, 4))
        self._proof.disk.clear()

    def fail_over(self) -> None:
        """Let a synchronous standby follow, kill the primary, and promote the standby."""
        standby = self._proof.follower()
        self._lose_the_server()
        standby.promote()
        self._take_over(standby)

    def fail_over_asynchronously(self) -> None:
        """Kill the primary, and promote a standby that lacks the commits of the last moments.

        The operation `promotion` tells the checker which acknowledged commits may be gone.
        """
        standby = self._proof.trailer()
        straggler = Straggler(self._proof.server, standby)
        straggler.fall_behind(self._chance.uniform(0.2, 1.5))
        promotion = invoked("promotion")
        self._lose_the_server()
        killed = now()
        kept_until = straggler.promote()
        self._take_over(standby)
        promotion.say("ok", kept_until=kept_until, killed=killed)

    def _lose_the_server(self) -> None:
        self._proof.server.stop("killed")
        self._proxy.cut()
        # The worker that is past the proxy has lost its server for good.
        self._fleet.kill()

    def _take_over(self, standby: Server) -> None:
        self._proof.server, self._proxy.target = standby, standby.port
        self._proxy.restore()

    def vacuum_freeze(self) -> None:
        with closing(self._stage.server.connect()) as connection:
            connection.execute("VACUUM (FREEZE, ANALYZE)")

    def maintain_partitions(self) -> None:
        """Make partitions far ahead, beside everybody."""
        with closing(self._stage.server.connect()) as connection:
            partitions.ensure(connection, ahead=timedelta(days=self._chance.randint(8, 30)))
            event_partitions.ensure(connection)


def starts(server: Server) -> bool:
    """Return whether a server starts."""
    try:
        server.start()
    except AssertionError:
        return False
    return True
