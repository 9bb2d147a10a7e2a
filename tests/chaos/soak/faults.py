"""What happens to the workers, the network and the server. Each fault is over when it returns."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

from tests.chaos.harness.proxy import Proxy
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import Stage
from tests.chaos.soak.fleet import Fleet, signal_all

OTHERS = "application_name <> 'suite' AND backend_type = 'client backend'"


class Faults:
    """All there are; `next()` returns one, as a seeded choice has it."""

    def __init__(self, stage: Stage, fleet: Fleet, proxy: Proxy, chance: random.Random) -> None:
        self._stage = stage
        self._fleet = fleet
        self._proxy = proxy
        self._chance = chance
        self._weights: dict[Callable[[], None], float] = {
            self.kill_a_process: 3,
            self.kill_a_worker: 2,
            self.stop_a_process: 3,
            self.stop_the_veteran: 1,
            self.deploy: 2,
            self.terminate_a_backend: 3,
            self.terminate_all_backends: 1,
            self.reset_connections: 3,
            self.cut_the_network: 2,
            self.silence_the_network: 2,
            self.restart_fast: 1,
            self.restart_immediate: 1,
        }

    def next(self) -> Callable[[], None]:
        """Choose one."""
        [chosen] = self._chance.choices(list(self._weights), list(self._weights.values()))
        return chosen

    def kill_a_process(self) -> None:
        if pid := self._fleet.one_of_several(self._chance):
            signal_all([pid], signal.SIGKILL)

    def kill_a_worker(self) -> None:
        self._fleet.kill()

    def stop_a_process(self) -> None:
        """For longer than its leases last, or not."""
        if pid := self._fleet.one_of_several(self._chance):
            self._stop([pid])

    def stop_the_veteran(self) -> None:
        self._stop(self._fleet.veteran.pids())

    def _stop(self, pids: list[int]) -> None:
        signal_all(pids, signal.SIGSTOP)
        nap(self._chance.uniform(0.5, 5))
        signal_all(pids, signal.SIGCONT)

    def deploy(self) -> None:
        self._fleet.deploy()

    def terminate_a_backend(self) -> None:
        self._stage.ask(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity "  # noqa: S608
            f"WHERE {OTHERS} ORDER BY random() LIMIT 1) chosen"
        )

    def terminate_all_backends(self) -> None:
        self._stage.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "  # noqa: S608
            f"WHERE {OTHERS}"
        )

    def reset_connections(self) -> None:
        self._proxy.snap()

    def cut_the_network(self) -> None:
        self._proxy.cut()
        nap(self._chance.uniform(0.5, 4))
        self._proxy.restore()

    def silence_the_network(self) -> None:
        """Half-open: nothing comes through, and nothing says so."""
        self._proxy.freeze()
        nap(self._chance.uniform(0.5, 5))
        self._proxy.restore()

    def restart_fast(self) -> None:
        self._restart("fast")

    def restart_immediate(self) -> None:
        self._restart("immediate")

    def _restart(self, how: str) -> None:
        self._stage.server.stop(how)
        nap(self._chance.uniform(0, 2))
        self._stage.server.start()
