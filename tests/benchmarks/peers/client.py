"""What is done to a peer in a process of its own, that it may be installed as it likes.

    python -m tests.benchmarks.peers.client PEER install
                                                 describe
                                                 one_by_one TASK COUNT   seconds that it took
                                                 bulk TASK COUNT         seconds
                                                 fill TASK COUNT
                                                 clients THREADS SECONDS how many were enqueued
                                                 gaps COUNT              when each was sent
                                                 chords KIND COUNT       seconds of each

Prints one line of JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from importlib import import_module
from threading import Barrier, Thread
from typing import Any

import django

from tests.benchmarks.peers.peer import Peer, module

GAPS = 0.02, 0.2  # seconds
CHORDS = 5


def install(peer: Peer) -> None:
    """Make its tables."""
    peer.install()


def fill(peer: Peer, task: str, count: str) -> None:
    """Enqueue messages with the numbers from 0."""
    peer.open()
    peer.enqueue_many(task, range(int(count)))


def one_by_one(peer: Peer, task: str, count: str) -> float:
    """Return the seconds that it takes one client, once it is connected."""
    peer.open()
    peer.enqueue(task, 0)
    began = time.monotonic()
    for number in range(int(count)):
        peer.enqueue(task, number)
    return time.monotonic() - began


def bulk(peer: Peer, task: str, count: str) -> float:
    """Return the seconds that it takes to enqueue all at once, once it is connected."""
    peer.open()
    peer.enqueue(task, 0)
    began = time.monotonic()
    peer.enqueue_many(task, range(int(count)))
    return time.monotonic() - began


def clients(peer: Peer, threads: str, seconds: str) -> int:
    """Return how many that many threads enqueued, from when a line comes in."""
    counts = [0] * int(threads)
    ready, go = Barrier(int(threads) + 1), Barrier(int(threads) + 1)
    peer.open()

    def enqueue(mine: int) -> None:
        peer.enqueue("nothing", 0)
        ready.wait()
        go.wait()
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            peer.enqueue("nothing", 0)
            counts[mine] += 1

    crowd = [Thread(target=enqueue, args=[mine], daemon=True) for mine in range(int(threads))]
    for each in crowd:
        each.start()
    ready.wait(60)
    print("ready", flush=True)
    sys.stdin.readline()
    go.wait(60)
    for each in crowd:
        each.join()
    return sum(counts)


def gaps(peer: Peer, count: str) -> list[float]:
    """Return the times at which messages were about to be enqueued, with random gaps between."""
    peer.open()
    peer.enqueue("note", -1)
    # The same for all peers.
    chance = random.Random(int(count))
    sent = []
    for number in range(int(count)):
        time.sleep(chance.uniform(*GAPS))
        sent.append(time.time())
        peer.enqueue("note", number)
    return sent


def chords(peer: Peer, kind: str, count: str) -> list[float]:
    """Return the seconds from the calls of some chords until each one's result is there."""
    peer.open()
    peer.chord(kind, 2)
    took = []
    for _ in range(CHORDS):
        began = time.monotonic()
        peer.chord(kind, int(count))
        took.append(time.monotonic() - began)
    return took


VERBS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (install, fill, one_by_one, bulk, clients, gaps, chords)
}


def main(name: str, verb: str, *arguments: str) -> None:
    """Do it, and print what it returns."""
    django.setup()
    peer: Peer = import_module(module(name)).PEER
    print(json.dumps(VERBS[verb](peer, *arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
