"""Dramatiq on Redis.

By default it has a process for each core with 8 threads each, and takes two messages a thread ahead
(`dramatiq_queue_prefetch`, "Advanced" in its docs); more was no faster. Its lease is the broker's
`heartbeat_timeout`. It has no bulk: a group sends one by one.
"""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnRedis, module, python, redis_url

PROCESSES = 2
THREADS = 8

broker = RedisBroker(
    url=redis_url(), **({"heartbeat_timeout": int(work.LEASE * 1000)} if work.LEASE else {})
)
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@dramatiq.actor
def nap(number: int) -> None:
    """Wait."""
    work.nap(number)


@dramatiq.actor
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


TASKS = {"nothing": nothing, "nap": nap, "note": note}


class Dramatiq(OnRedis):
    """Processes of threads behind a consumer each."""

    name = "dramatiq"
    title = "Dramatiq + Redis"
    distribution = "dramatiq"
    pace = 4_000
    settings = (
        f"{PROCESSES} processes × {THREADS} threads, "
        f"{work.AT_ONCE // PROCESSES} each where tasks nap"
    )
    has_bulk = False
    # Of all messages that are not acknowledged, whichever worker holds them.
    queues = (("HLEN", "dramatiq:default.msgs"),)

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].send(number)

    def workers(self, task: str, *, lease: float) -> Commands:
        threads = work.AT_ONCE // PROCESSES if task == "nap" else THREADS
        options = ["--processes", str(PROCESSES), "--threads", str(threads)]
        return [python("dramatiq", *options, f"{module(self.name)}:broker")]


PEER = Dramatiq()
