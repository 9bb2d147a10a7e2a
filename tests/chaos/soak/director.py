"""A run from its first message to the closed books."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.harness.migrated import migrated
from tests.chaos.harness.server import nap
from tests.chaos.harness.stage import SEED, Stage
from tests.chaos.soak import probe
from tests.chaos.soak.faults import Faults
from tests.chaos.soak.fleet import Fleet
from tests.chaos.soak.pin import Pin
from tests.chaos.soak.record import Record
from tests.chaos.soak.sampler import Sampler
from tests.chaos.soak.verdict import ENOUGH, Probe
from tests.eventually import eventually

RATE = 60
"""Messages a second of each producer: two thirds of what two cores can do beside the faults."""
PROBE_EVERY = 15.0
PAUSES = (1.0, 5.0)
"""Seconds between two faults."""
# As PostgreSQL comes, but for what the suite needs: nothing is tuned for what is measured.
UNTUNED = {"shared_buffers": "128MB", "autovacuum_naptime": "1min"}

LATEST = """
SELECT max(finished_at) > %s
FROM (SELECT finished_at FROM pgqueue_history ORDER BY id DESC LIMIT 200) latest
"""


def soak(record: Record, folder: Path, *, lasts: float) -> list[Probe]:
    """Let everybody work for so many seconds, with faults; return the bursts.

    Raises:
        AssertionError: something was lost, doubled, left over, did not go on, or a worker ended.
    """
    with migrated("soak") as server:
        server.settings.update(UNTUNED)
        server.start()
        with closing(server.connect()) as connection:
            probe.configure(connection)
        with _stage(Stage(server, folder, "soak")) as stage:
            return Director(stage, record, lasts=lasts).run()


@contextmanager
def _stage(stage: Stage) -> Iterator[Stage]:
    try:
        yield stage
    except BaseException:
        stage.show_logs()
        raise
    finally:
        stage.close()


class Director:
    """Says who does what, and when."""

    def __init__(self, stage: Stage, record: Record, *, lasts: float) -> None:
        self._stage = stage
        self._record = record
        self._lasts = lasts
        self._random = random.Random(f"{SEED} soak")
        self._proxy = stage.proxy()
        self._fleet = Fleet(stage, port=self._proxy.port)
        self._faults = Faults(stage, self._fleet, self._proxy, self._random)
        self._pin = Pin(stage.server, record, lasts=lasts)
        self._deaths = 0
        self._sampler = Sampler(stage.server, self._fleet, record)

    def run(self) -> list[Probe]:
        """Run it, and close the books."""
        self._begin()
        try:
            probes = list(self._go_on())
        finally:
            self._pin.release()
            self._sampler.stop()
        self._stage.end(within=180)
        assert not self._deaths, f"{self._deaths} workers ended by themselves"
        return probes

    def _begin(self) -> None:
        """Have everybody work, and warm up: imports and caches are not what is measured."""
        self._fleet.fill()
        for port in (None, self._proxy.port):
            self._stage.producer(rate=RATE, port=port, also="pulled raw once large")
            self._stage.consumer(port=port)
        self._stage.operator(rest=1)
        for _ in range(2):
            probe.measure(self._stage, self._fleet, clock=time.monotonic)
        self._record.start()
        self._sampler.start()

    def _go_on(self) -> Iterator[Probe]:
        """Let a fault happen every few seconds, and between some of them a burst."""
        every = min(PROBE_EVERY, self._lasts / 30)
        next_at = 0.0
        probes = 0
        # A slow machine gets the time for as many bursts as a verdict needs.
        while self._record.clock < self._lasts or probes < 2 * ENOUGH:
            self._pin.keep()
            if self._record.clock >= next_at:
                next_at = self._record.clock + every
                probes += 1
                yield self._probe()
            self._let_happen(self._faults.next())
            nap(self._random.uniform(*PAUSES))

    def _probe(self) -> Probe:
        """Measure one, and say how far the run is."""
        done = probe.measure(self._stage, self._fleet, clock=lambda: self._record.clock)
        self._record.write("probe", **asdict(done))
        print(f"{done.at / 60:.1f} min: {done.per_s:.0f} messages/s", flush=True)
        return done

    def _let_happen(self, fault: Callable[[], None]) -> None:
        """Let it happen, repair what it broke, and wait until messages end again."""
        name = fault.__name__
        with self._record.lasting("fault", name=name):
            fault()
        with self._record.lasting("recovery", name=name):
            self._repair()
            ended = datetime.now(UTC)
            eventually(
                lambda: (self._stage.ask(LATEST, ended) or (False,))[0],
                within=60,
                what=f"it goes on after {name}",
            )

    def _repair(self) -> None:
        for words in self._fleet.fill():
            self._deaths += 1
            self._record.write("death", words=words)
            print(words)
