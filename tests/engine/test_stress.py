"""Everything at once, for a few seconds: nothing is lost, ends twice, or deadlocks."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from pgqueue.engine import cancel, dead, lease, promote, settle
from pgqueue.engine.settle import Deferral
from pgqueue.engine.values import Claim
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from tests.claims import FreeClaims
from tests.factories import Connection, Listening, done, failure, register, store

pytestmark = pytest.mark.slow

SECONDS = 4.0
MAX_LOST = 4
CHANNELS = ("a", "b", "c")
KEYS = ("", "k", "l", "m")


def soon(most: float = 0.03) -> timedelta:
    return timedelta(seconds=random.uniform(0, most))


class World:
    """What the actors do, and what came of it. Each verb is one round of an actor's loop."""

    def __init__(self) -> None:
        self.stored: set[int] = set()
        self.rolled_back: set[int] = set()
        self.succeeded: Counter[int] = Counter()
        self.stale: deque[Claim] = deque(maxlen=50)
        self.claimed = 0

    def produce(self, connection: Connection) -> None:
        ids: list[int] = []
        fails = random.random() < 0.2
        with connection.transaction(force_rollback=fails):
            for _ in range(random.randint(1, 3)):
                stored = store(
                    connection,
                    random.choices(KEYS, k=random.randint(1, 6)),
                    channel=random.choice(CHANNELS),
                    priority=random.randint(-2, 2),
                    run_after=random.choice([None, None, soon()]),
                )
                ids += stored.ids
        (self.rolled_back if fails else self.stored).update(ids)

    def settle(self, connection: Connection, claims: list[Claim]) -> None:
        """End runs in every way, in no order, some for the second time."""
        random.shuffle(claims)
        self.stale.extend(claims[:3])
        claims += random.sample(sorted(self.stale), k=min(2, len(self.stale)))
        parts: list[list[Claim]] = [[], [], [], []]
        for each in claims:
            random.choices(parts, weights=[6, 2, 1, 1])[0].append(each)
        self.succeeded.update(settle.complete(connection, [done(each) for each in parts[0]]))
        settle.retry(connection, [failure(each, delay=soon()) for each in parts[1]])
        settle.bury(connection, [failure(each) for each in parts[2]])
        settle.defer(connection, [Deferral(each, soon()) for each in parts[3]])

    def worker(
        self, connection: Connection, *, lease_of: timedelta, abandons: float = 0, undoes: float = 0
    ) -> Callable[[Connection], None]:
        mine = FreeClaims(connection, lease=lease_of)

        def work(connection: Connection) -> None:
            undone = random.random() < undoes
            with connection.transaction(force_rollback=undone):
                claims = mine.claim(random.choice([1, 5, 30]))
            if undone:
                mine.forget()
                self.stale.extend(claims[:3])
                return
            self.claimed += len(claims)
            if claims and random.random() < 0.5:
                lease.extend(connection, claims[::-1], lease=lease_of)
            kept = [each for each in claims if random.random() >= abandons]
            self.stale.extend(claims[:2])
            self.settle(connection, kept)

        return work

    def rescue(self, connection: Connection) -> None:
        lease.rescue(connection, max_lost=MAX_LOST, limit=random.choice([1, 10, 500]))

    def promote(self, connection: Connection) -> None:
        promote.promote(connection, limit=random.choice([1, 10, 1000]))

    def meddle(self, connection: Connection) -> None:
        """Do what operators do, to a few messages at once; change one's mind at times."""
        some = random.sample(sorted(self.stored), k=min(4, len(self.stored)))
        with connection.transaction(force_rollback=random.random() < 0.3):
            if random.random() < 0.5:
                cancel.cancel(connection, some)
            else:
                promote.run_now(connection, some)
        buried = [id for (id,) in connection.execute(
            "SELECT id FROM pgqueue_message WHERE state = 'dead' LIMIT 3")]  # fmt: skip
        random.choice([dead.replay, dead.discard])(connection, buried)
        time.sleep(0.02)


def test_every_message_ends_once(connect: Callable[..., Connection]) -> None:
    world = World()
    stop = threading.Event()
    errors: list[BaseException] = []

    def loop(verb: Callable[[Connection], None], connection: Connection) -> None:
        while not stop.is_set():
            try:
                verb(connection)
            except BaseException as error:
                errors.append(error)
                stop.set()
                raise

    def worker(**how: Any) -> tuple[Callable[[Connection], None], Connection]:
        connection = connect()
        return world.worker(connection, **how), connection

    tiny, ample = timedelta(milliseconds=5), timedelta(seconds=60)
    register(connect(), notify_for=ample)
    listening = Listening(connect())
    cast = [
        (world.produce, connect()),
        (world.produce, connect()),
        worker(lease_of=ample),
        worker(lease_of=tiny, abandons=0.3),
        worker(lease_of=tiny, undoes=0.5),
        worker(lease_of=tiny, abandons=0.05),
        (world.rescue, connect()),
        (world.promote, connect()),
        (world.meddle, connect()),
    ]
    with ThreadPoolExecutor(len(cast)) as threads:
        for verb, connection in cast:
            threads.submit(loop, verb, connection)
        stop.wait(SECONDS)
        stop.set()
    assert errors == []
    assert listening.heard()

    finish(world, connect())

    ended = list(History.objects.values_list("id", "outcome"))
    buried = set(Message.objects.values_list("id", flat=True))
    ids = {id for id, _ in ended}
    assert len(ids) == len(ended), "a message ended twice"
    assert not ids & buried
    assert ids | buried == world.stored, "a message was lost, or came from nowhere"
    assert not world.rolled_back & world.stored
    succeeded = {id for id, outcome in ended if outcome == Outcome.SUCCEEDED}
    assert world.succeeded == dict.fromkeys(succeeded, 1)
    # It was worth while: every kind of end was met.
    assert {outcome for _, outcome in ended} == {"succeeded", "cancelled", "discarded"}
    assert min(len(succeeded), len(world.rolled_back)) > 20


def finish(world: World, connection: Connection) -> None:
    """Let one patient worker end what is left, but for the dead."""
    until = time.monotonic() + 30
    mine = FreeClaims(connection)
    while Message.objects.exclude(state=State.DEAD).exists():
        assert time.monotonic() < until, list(Message.objects.values("state", "lost", "run_at"))
        connection.execute(
            "UPDATE pgqueue_message SET run_at = clock_timestamp() WHERE state = 'scheduled'; "
            "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE state = 'running'"
        )
        lease.rescue(connection, max_lost=MAX_LOST)
        promote.promote(connection)
        while claims := mine.claim(500):
            world.succeeded.update(settle.complete(connection, [done(each) for each in claims]))


@pytest.mark.parametrize("limit", [1, 40])
def test_many_workers_never_claim_one_message_twice(
    connect: Callable[..., Connection], connection: Connection, limit: int
) -> None:
    count = 300 if limit == 1 else 4000
    store(connection, [str(n % 13) for n in range(count)])
    begin = threading.Barrier(4)

    def work(session: Connection) -> list[int]:
        mine = FreeClaims(session)
        taken: list[int] = []
        begin.wait(20)
        while claims := mine.claim(limit):
            assert len(claims) <= limit
            taken += [each.id for each in claims]
        return taken

    with ThreadPoolExecutor() as threads:
        shares = [threads.submit(work, connect()) for _ in range(4)]
    taken = [id for share in shares for id in share.result()]

    assert len(taken) == len(set(taken))
    left = Message.objects.filter(state=State.READY).count()
    # One that found all heads locked has rightly gone to wait; never all of them have.
    assert (len(taken) + left, left) == (count, 0)
