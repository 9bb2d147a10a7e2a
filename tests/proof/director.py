"""A proof from its first message to the dump."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.chaos.harness.disk import Disk, small
from tests.chaos.harness.migrated import migrated
from tests.chaos.harness.server import Server, nap
from tests.chaos.harness.stage import SEED
from tests.chaos.soak.fleet import Fleet
from tests.eventually import eventually
from tests.proof import mutations
from tests.proof.faults import CRASHES, ProofFaults
from tests.proof.operations import invoked
from tests.proof.stage import LEASE, ProofStage
from tests.starting import ROOT

S = TypeVar("S", bound=ProofStage)

MEGABYTES = 500
"""The room for tables, some of which a fault takes."""
PAUSES = (2.0, 9.0)
"""Seconds between two faults: some are longer than it takes to recover from one."""
MAKERS = {"producer": (2, 30), "publisher": (2, 30), "observer": (1, 5)}
"""How many processes of each kind there are, and the rate of each."""
GROUPS = {"atomic": 2, "plain": 1}
"""The readers of each group of the log, which has two partitions."""
SCHEDULES = ("proof",)
LIMITS = [
    {"name": "crowded", "running": 4},
    *({"name": f"crowded {key}", "running": 2} for key in "abc"),
    {"name": "metered", "rate": 20, "burst": 5},
]
CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
SOME_LATER = "SELECT count(*) > 0 FROM pgqueue_history WHERE finished_at > to_timestamp(%s)"


@dataclass
class Ran:
    """The course of a proof.

    Attributes:
        faults: how often each fault happened.
        seconds: how long the load lasted.
        complaint: why the proof ended early; "": it did not.
    """

    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    complaint: str = ""


def prove(
    logs: Path, folder: Path, *, lasts: float, mutation: str = "", only: set[str] | None = None
) -> Ran:
    """Let everybody work for so many seconds, with faults; leave the logs and the dump.

    Args:
        logs: an empty folder for the logs and the dump.
        folder: for the output of processes.
        lasts: seconds.
        mutation: the name of a planted fault.
        only: names of the faults that happen; None or empty: all.
    """
    with set_up(partial(ProofStage, mutation=mutation), logs, folder) as stage:
        if mutation:
            mutations.plant_in_database(mutation, stage.server.connect)
        return ProofDirector(stage, only or set()).run(lasts)


@contextmanager
def set_up(
    make: Callable[[Server, Path, Path, Disk], S], logs: Path, folder: Path, *, root: Path = ROOT
) -> Iterator[S]:
    """Start a server on a small disk, and return a stage for it.

    Args:
        make: makes the stage.
        root: the checkout whose tables the server has.
    """
    os.environ["PROOF_LOG"] = str(logs)
    with (
        migrated("proof", root=root) as server,
        small(server.data / "base", megabytes=MEGABYTES) as disk,
    ):
        server.wrapper = disk.wrapper
        server.start()
        stage = make(server, folder, logs, disk)
        try:
            stage.prepare()
            yield stage
        finally:
            stage.close()


class ProofDirector:
    """Starts everybody, and lets faults happen."""

    def __init__(self, stage: ProofStage, only: set[str]) -> None:
        self._stage = stage
        self._random = random.Random(f"{SEED} proof")
        self._fleet = Fleet(stage, port=stage.front.port)
        self._faults = ProofFaults(stage, self._fleet, stage.front, self._random, only=only)
        self._number = 0
        self._ran = Ran()

    def run(self, lasts: float) -> Ran:
        """Run it for so many seconds."""
        for limit in LIMITS:
            invoked("limit", **{"running": 0, "rate": 0, "burst": 0, **limit}).say("ok")
        began = time.monotonic()
        try:
            self._fill()
            self._announce()
            began = time.monotonic()
            first = self._faults.shuffled()
            while time.monotonic() < began + lasts:
                nap(min(self._random.uniform(*PAUSES), began + lasts - time.monotonic()))
                self._let_happen(first.pop() if first else self._faults.next())
        except AssertionError as error:
            self._stage.show_logs()
            self._ran.complaint = str(error)[-2000:]
        self._ran.seconds = time.monotonic() - began
        self._stage.close_all()
        return self._ran

    def _announce(self) -> None:
        """Write down who takes part: the checker finds one that does nothing."""
        taking_part = {"groups": list(GROUPS), "schedules": list(SCHEDULES)}
        invoked("participants", **taking_part, observers=["observer"], db=time.time()).say("ok")

    def _fill(self) -> None:
        """Start everybody who is missing."""
        for words in self._fleet.fill():
            self._ran.complaint = words
        for module, (count, rate) in MAKERS.items():
            for number in range(1, count + 1):
                self._make(module, number, rate)
        for group, count in GROUPS.items():
            living = [e for e in self._stage.others if e.name.endswith(group) and e.is_alive]
            for _ in range(count - len(living)):
                self._stage.reader(group, partitions=2, port=self._stage.front.port, lease=LEASE)

    def _make(self, module: str, number: int, rate: float) -> None:
        made = {key: each for key, each in self._stage.makers.items() if key[0] == module}
        if sum(each.is_alive for each in made.values()) >= MAKERS[module][0]:
            return
        for key, each in made.items():
            if not each.is_alive:
                del self._stage.makers[key]
        self._number += 1
        self._stage.make(module, self._number, rate=rate)

    def _let_happen(self, fault: Callable[[], None]) -> None:
        """Let it happen, replace who died, and wait until messages end again."""
        name = fault.__name__
        self._ran.faults[name] += 1
        operation = invoked("fault", name=name, crashes=name in CRASHES, db_began=time.time())
        fault()
        self._fill()
        self._goes_on()
        # A message that was charged in the meantime met this fault.
        operation.say("ok", db=time.time())

    def _goes_on(self) -> None:
        [now] = self._stage.ask(CLOCK)
        eventually(
            lambda: self._stage.ask(SOME_LATER, now) == (True,), within=120, what="it goes on"
        )
