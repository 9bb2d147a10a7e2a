"""The measurements, each of one peer and the same for all."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from typing import Any

from tests.benchmarks.harness.database import ROOT
from tests.benchmarks.harness.group import Group
from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Peer
from tests.benchmarks.peers.places import Place

PATIENCE = 60.0
"""Seconds after which a worker that does not do what it should is given up."""
LEASE = 5.0
"""Seconds that a killed worker's tasks are its own, by whichever option its peer has for that."""
BOUND = 3 * LEASE
"""Seconds after a worker was killed and replaced by which its tasks must have run."""
PROCESSES = 4
"""Those that enqueue at once, each with so many threads."""

Figures = dict[str, float]


class Failed(Exception):
    """A peer did not do what it was to do; the message ends with what it printed."""


def enqueue(peer: Peer, place: Place, count: int) -> Figures:
    """One by one, each committed, by one client; no worker."""
    _make_room(peer, place)
    return {"enqueue_per_s": count / _call(peer, place, "one_by_one", "nothing", str(count))}


def bulk(peer: Peer, place: Place, count: int) -> Figures:
    """At once, by one client; no worker."""
    _make_room(peer, place)
    return {"bulk_per_s": count / _call(peer, place, "bulk", "nothing", str(count))}


def clients(peer: Peer, place: Place, seconds: float) -> Figures:
    """One by one by 32 clients, each committed; no worker, which would take of the cores."""
    _make_room(peer, place)
    with ExitStack() as stack:
        crowd = []
        for _ in range(PROCESSES):
            process = _start(peer, place, "clients", str(work.THREADS), str(seconds))
            stack.callback(process.kill)
            crowd.append(process)
        for process in crowd:
            _read(process)
        for process in crowd:
            process.stdin.write("go\n")
            process.stdin.flush()
        counts = [json.loads(_read(process)) for process in crowd]
        for process in crowd:
            process.communicate()
    return {"clients_per_s": sum(counts) / seconds}


def drain(peer: Peer, place: Place, task: str, count: int, **told: str) -> float:
    """Return the tasks a second that its workers run of a full queue.

    From when a look finds that a tenth is done to when nothing is left. So starting is not
    counted, also of the last of several processes, and the end is known to 20 ms.
    """
    _make_room(peer, place)
    _call(peer, place, "fill", task, str(count))
    peer.settle_down(place)
    began = time.monotonic()
    left = count
    with _working(peer, place, task, **told) as workers:

        def is_under_way() -> bool:
            nonlocal left
            left = peer.left(place)
            return left < 0.9 * count

        _wait_until(is_under_way, workers, every=0.01)
        if left:
            began = time.monotonic()
            _wait_until(lambda: peer.is_done(place), workers, every=0.02)
        took = time.monotonic() - began
    # Or the server vacuums what this one left while the next is measured.
    _make_room(peer, place)
    return (left or count) / took


def pickup(peer: Peer, place: Place, count: int) -> Figures:
    """From before `enqueue` until the task has begun, on an idle queue, by the same clock."""
    _make_room(peer, place)
    _call(peer, place, "fill", "note", "1")
    with _working(peer, place, "note") as workers:
        _wait_until(lambda: bool(_noted(place)), workers)
        time.sleep(1)  # until it has gone idle
        place.execute("TRUNCATE peers_ledger")
        sent = _call(peer, place, "gaps", str(count))
        _wait_until(lambda: len(_noted(place) - {-1}) == count, workers)
    begun = dict(place.rows("SELECT number, at FROM peers_ledger"))
    delays = [(begun[number] - at) * 1000 for number, at in enumerate(sent)]
    cuts = quantiles(delays, n=100, method="inclusive")
    return {"pickup_p50_ms": cuts[49], "pickup_p99_ms": cuts[98]}


def chord(peer: Peer, place: Place, kind: str, count: int) -> Figures:
    """From the call of a chord until its result is there, by workers that have nothing else."""
    _make_room(peer, place)
    _call(peer, place, "fill", "note", "1")
    with _working(peer, place, kind) as workers:
        _wait_until(lambda: bool(_noted(place)), workers)
        took = _call(peer, place, "chords", kind, str(count))
    return {f"{kind}_per_s": 1 / median(took)}


def killed(peer: Peer, place: Place, count: int) -> Figures:
    """SIGKILL all workers amid a drain, start others, and count what became of the messages.

    lost: had no effect within BOUND, and the queue no longer knows of them; stuck: the queue still
    has them then; doubled: effects beyond the first of a message.
    """
    _make_room(peer, place)
    _call(peer, place, "fill", "note", str(count))
    told = {"PEERS_LEASE": str(LEASE), "PGQUEUE_LEASE": str(LEASE)}
    with _working(peer, place, "note", **told) as workers:
        _wait_until(lambda: len(_noted(place)) >= count / 3, workers, every=0.005)
        for worker in workers:
            worker.kill()
    before = _noted(place)
    with _working(peer, place, "note", **told) as workers:
        # Their time begins with an effect of theirs: some take long to start.
        _comes_true(lambda: _noted(place) != before, workers, patience=BOUND)
        _comes_true(
            lambda: len(_noted(place)) == count and peer.is_done(place), workers, patience=BOUND
        )
    missing, left = count - len(_noted(place)), peer.left(place)
    effects = place.ask("SELECT count(*) FROM peers_ledger")
    return {
        "lost": max(missing - left, 0),
        "stuck": left,
        "doubled": effects - len(_noted(place)),
    }


def _make_room(peer: Peer, place: Place) -> None:
    """Begin afresh; what is finished stays where it is to be in the way."""
    if not place.is_full:
        peer.empty(place)
    place.execute("TRUNCATE peers_ledger")
    peer.settle_down(place)


def _noted(place: Place) -> set[int]:
    return {number for (number,) in place.rows("SELECT number FROM peers_ledger")}


@contextmanager
def _working(peer: Peer, place: Place, task: str, **told: str) -> Iterator[list[Group]]:
    """Have the peer's workers while this lasts."""
    environment = {**place.environment, **told}
    with ExitStack() as stack:
        yield [
            stack.enter_context(Group(command, environment=environment, cwd=ROOT))
            for command in peer.workers(task, lease=float(told.get("PEERS_LEASE", 0)))
        ]


def _wait_until(
    condition: Callable[[], bool], workers: list[Group], *, every: float = 0.02
) -> None:
    if not _comes_true(condition, workers, every=every, patience=PATIENCE):
        raise Failed(f"Nothing came of it in {PATIENCE:g} s.\n{workers[0].said()}")


def _comes_true(
    condition: Callable[[], bool], workers: list[Group], *, patience: float, every: float = 0.02
) -> bool:
    """Ask again and again, and say whether it did before the patience ended."""
    until = time.monotonic() + patience
    while not condition():
        for worker in workers:
            if worker.has_ended:
                raise Failed(f"A worker ended by itself.\n{worker.said()}")
        if time.monotonic() > until:
            return False
        time.sleep(every)
    return True


def install(peer: Peer, place: Place) -> None:
    """Make its tables."""
    _call(peer, place, "install")


def _call(peer: Peer, place: Place, *arguments: str) -> Any:
    """Return what a client returned."""
    process = _start(peer, place, *arguments)
    try:
        output, errors = process.communicate(timeout=2 * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed(f"{' '.join(arguments)} took longer than {2 * PATIENCE:g} s.") from None
    if process.returncode:
        raise Failed(f"{' '.join(arguments)} failed.\n{errors[-3000:]}")
    return json.loads(output.splitlines()[-1])


def _start(peer: Peer, place: Place, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.peers.client", peer.name, *arguments],
        cwd=ROOT,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _read(process: subprocess.Popen[str]) -> str:
    """Return the next line of a client."""
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise Failed(f"A client ended.\n{process.stderr.read()[-3000:] if process.stderr else ''}")
    return line
