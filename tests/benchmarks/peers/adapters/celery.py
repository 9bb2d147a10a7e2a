"""Celery on Redis.

Its guide (userguide/optimizing) says to raise the prefetch multiplier, "64, or 128", for lots of
short tasks; (userguide/workers) prefork with as many processes as there are cores, unless tasks
wait; (userguide/tasks) to ignore results that are not read. Gossip, mingle and heartbeats are for
several workers. A killed worker's tasks come back with `acks_late` and `reject_on_worker_lost`,
once Redis' `visibility_timeout` is over (getting-started/backends-and-brokers/redis). It has no
bulk: a group sends one by one. A chord needs the results of its members, which Redis counts
(userguide/canvas, "Chords").
"""

from celery import Celery, chord

from tests.benchmarks.peers import work
from tests.benchmarks.peers.peer import Commands, OnRedis, module, python, redis_url

PROCESSES = 2
PREFETCH = 128

app = Celery("peers", broker=redis_url(), backend=redis_url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1 if work.LEASE else PREFETCH,
    task_acks_late=bool(work.LEASE),
    task_reject_on_worker_lost=bool(work.LEASE),
    broker_transport_options={"visibility_timeout": work.LEASE or 3600},
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


@app.task(name="nothing")
def nothing(number: int) -> None:
    """Do nothing."""
    work.nothing(number)


@app.task(name="nap")
def nap(number: int) -> None:
    """Wait."""
    work.nap(number)


@app.task(name="note")
def note(number: int) -> None:
    """Leave an effect."""
    work.note(number)


@app.task(name="member", ignore_result=False)
def member(number: int) -> None:
    """Do nothing, as a member of a chord: that counts what is kept of its members."""
    work.nothing(number)


@app.task(name="gather", ignore_result=False)
def gather(results: list[None]) -> int:
    """Take the results of many."""
    return len(results)


TASKS = {"nothing": nothing, "nap": nap, "note": note}


class CeleryPeer(OnRedis):
    """A consumer that hands tasks to a pool of processes, or threads."""

    name = "celery"
    title = "Celery + Redis"
    distribution = "celery"
    pace = 2_000
    settings = (
        f"prefork, {PROCESSES} processes, prefetch multiplier {PREFETCH}, {work.AT_ONCE} "
        "threads where tasks nap; results ignored; `acks_late` where it is killed only"
    )
    has_bulk = False
    has_chords = True
    queues = (("LLEN", "celery"), ("HLEN", "unacked"))

    def enqueue(self, task: str, number: int) -> None:
        TASKS[task].delay(number)

    def chord(self, kind: str, count: int) -> None:
        members = chord([member.s(number) for number in range(count)])
        assert members(gather.s()).get(timeout=60) == count

    def workers(self, task: str, *, lease: float) -> Commands:
        pool = ["threads", str(work.AT_ONCE)] if task == "nap" else ["prefork", str(PROCESSES)]
        options = ["--pool", pool[0], "--concurrency", pool[1], "--loglevel", "WARNING"]
        options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return [python("celery", "--app", module(self.name), "worker", *options)]


PEER = CeleryPeer()
