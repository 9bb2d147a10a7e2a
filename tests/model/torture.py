"""All actors at once, each in a thread, and an auditor that checks all of it meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pgqueue.engine import cancel, dead, expire, lease, promote, route, settle
from pgqueue.engine.values import Claim
from tests.eventually import eventually
from tests.factories import Connection, done, failure, limit, store
from tests.model.model import Policy, Starts
from tests.model.worker import Worker

LEASE = timedelta(milliseconds=400)
MAX_LOST = 1000
KEYS = ["", *"abcdef", "vip"]
CHANNELS = ["free", "keyed", "keyed", "whole", "whole", "paced", "changing"]
EACH, VIP, WHOLE = 2, 3, 7
PACE = Policy(rate=300, burst=5)


class Torture:
    """Who takes part, and what they saw. Each verb is one round of an actor's loop.

    `keyed`, `whole` and `paced` have the same policies all the time, so that what they allow is
    exact; those of `changing` change, and only that all of it ends is asked there.
    """

    def __init__(self, connect: Callable[..., Connection]) -> None:
        self._connect = connect
        self._connections: list[Connection] = []
        self.stored: Counter[int] = Counter()
        self.succeeded: Counter[int] = Counter()
        self.started: list[datetime] = []
        self.snapshots = 0
        self.contradictions = 0
        self._seen: dict[tuple[str, str], set[int]] = {}
        self._errors: list[BaseException] = []
        self._stop = threading.Event()

    def __str__(self) -> str:
        return (
            f"{len(self.stored)} messages, {len(self.succeeded)} succeeded, "
            f"{self.snapshots} snapshots, {self.contradictions} contradictions"
        )

    def run(self, seconds: float) -> None:
        """Go on for so long, then let everything end, and look at what it came to."""
        for channel in ("keyed", "whole"):
            limit(channel, max_running=EACH)
            limit(channel, key="vip", max_running=VIP)
        limit("whole", scope="channel", max_running=WHOLE)
        limit("paced", scope="channel", rate=PACE.rate, burst=PACE.burst)
        workers = [self.worker(self._open()) for _ in range(3)]
        cast = [self.produce, self.produce, self.produce, *workers, self.operate, self.change]
        cast += [self.rescue, self.promote, self.tidy, self.audit]
        threads = [threading.Thread(target=self._loop, args=[verb]) for verb in cast]
        for thread in threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in threads:
            thread.join(60)
        if self._errors:
            raise self._errors[0]
        self._check(self._open())
        for connection in self._connections:
            connection.close()

    def _open(self) -> Connection:
        connection = self._connect()
        self._connections.append(connection)
        return connection

    def _loop(self, verb: Callable[[Connection], None]) -> None:
        connection = self._open()
        try:
            while not self._stop.is_set():
                verb(connection)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def produce(self, connection: Connection) -> None:
        """Enqueue free messages, and then some that producers may have to wait for."""
        stored: Counter[int] = Counter()
        is_undone = random.random() < 0.2
        with connection.transaction(force_rollback=is_undone):
            for given in random.sample([{}, {"run_after": soon()}, locking()], k=2):
                some = random.choices(KEYS, k=1 if given.get("replaces") else random.randint(1, 6))
                if given.pop("is_deduplicated", False):
                    given["dedupe_keys"] = [random.choice("wxyz") for _ in some]
                enqueued = store(connection, some, channel=random.choice(CHANNELS), **given)
                stored.update(
                    id
                    for id, came_of in zip(enqueued.ids, enqueued.came_of, strict=True)
                    if id and came_of == "stored"
                )
        if not is_undone:
            self.stored.update(stored)
        time.sleep(random.uniform(0, 0.02))

    def worker(self, connection: Connection) -> Callable[[Connection], None]:
        """Return an actor that claims, and ends runs in every way but for those it forgets."""
        worker = Worker(connection, lease=LEASE)

        def work(_: Connection) -> None:
            size = random.choice([1, 1, 2, 20])
            claims = worker.claim(
                size, random.randint(1, size), governed_first=random.random() < 0.5
            )
            self._note_starts(claims)
            lease.begin(connection, [each for each in claims if each.lost])
            time.sleep(random.choice([0, 0, 0, 0.01]))
            self._settle(connection, claims)

        return work

    def _note_starts(self, claims: list[Claim]) -> None:
        self.started += [each.claimed_at for each in claims if each.channel == "paced"]

    def _settle(self, connection: Connection, claims: list[Claim]) -> None:
        parts: list[list[Claim]] = [[] for _ in range(6)]
        for each in claims:
            random.choices(parts, weights=[12, 2, 1, 1, 1, 1])[0].append(each)
        with connection.transaction():
            # As atomic tasks do: others meet what is not committed yet.
            succeeded = settle.complete(connection, [done(each) for each in parts[0]])
            time.sleep(random.choice([0, 0, 0, 0.01]))
        self.succeeded.update(succeeded)
        settle.retry(connection, [failure(each, delay=soon()) for each in parts[1]])
        settle.retry(connection, [failure(each) for each in parts[2]])
        settle.bury(connection, [failure(each) for each in parts[3]])
        settle.release(connection, parts[4])

    def operate(self, connection: Connection) -> None:
        """Cancel a few, and change one's mind at times; see to the dead."""
        some = random.choices(list(self.stored) or [0], k=3)
        with connection.transaction(force_rollback=random.random() < 0.5):
            cancel.cancel(connection, some)
            time.sleep(random.uniform(0, 0.02))
        rows = connection.execute("SELECT id FROM pgqueue_message WHERE state = 'dead' LIMIT 5")
        random.choice([dead.replay, dead.replay, dead.discard])(connection, [id for (id,) in rows])

    def change(self, connection: Connection) -> None:
        """Change what holds for one channel."""
        scope, key = random.choice([("channel", ""), ("each", ""), ("key", "vip")])
        with connection.transaction():
            connection.execute(
                "DELETE FROM pgqueue_policy WHERE channel = 'changing' AND scope = %s", [scope]
            )
            if random.random() < 0.7:
                connection.execute(
                    "INSERT INTO pgqueue_policy (channel, scope, key, max_running, rate, weight) "
                    "VALUES ('changing', %s, %s, %s, %s, %s)",
                    [
                        *(scope, key, random.choice([None, 1, 2, 5])),
                        *(random.choice([None, None, 100]), 2 if scope == "key" else None),
                    ],
                )
        time.sleep(random.uniform(0, 0.05))

    def rescue(self, connection: Connection) -> None:
        """Take from those who forgot; who is slow is taken for one of them."""
        lease.rescue(connection, max_lost=MAX_LOST)
        time.sleep(0.02)

    def promote(self, connection: Connection) -> None:
        """Do the duties that go by time."""
        connection.execute(
            "UPDATE pgqueue_message SET run_at = statement_timestamp() WHERE id = ANY (ARRAY("
            "SELECT id FROM pgqueue_message WHERE state = 'scheduled' AND lost > 1 "
            "FOR UPDATE SKIP LOCKED))"
        )
        promote.promote(connection, limit=random.choice([1, 10, 1000]))
        expire.expire(connection)
        time.sleep(0.01)

    def tidy(self, connection: Connection) -> None:
        """Count what contradicts the tables, as if it had done so for long."""
        connection.execute(
            "UPDATE pgqueue_lane SET turn_at = turn_at - interval '6 seconds' "
            "WHERE ctid = ANY (ARRAY(SELECT ctid FROM pgqueue_lane "
            "WHERE state IN ('idle', 'saturated') FOR UPDATE SKIP LOCKED))"
        )
        self.contradictions += route.tidy(connection)
        time.sleep(0.05)

    def audit(self, connection: Connection) -> None:
        """Look at everything at one moment."""
        rows = connection.execute(
            "SELECT channel, key, count(*) FILTER (WHERE state = 'running'), "
            "count(*) FILTER (WHERE state = 'running' AND ordered), "
            "array_agg(id ORDER BY id) FILTER (WHERE ordered) "
            "FROM pgqueue_message GROUP BY channel, key"
        ).fetchall()
        whole: Counter[str] = Counter()
        for channel, key, running, ordered, ids in rows:
            whole[channel] += running
            assert ordered <= 1, (channel, key, ordered)
            self._see(channel, key, ids or [])
            if channel in ("keyed", "whole") and key:
                assert running <= (VIP if key == "vip" else EACH), (key, running)
        assert whole["whole"] <= WHOLE, whole
        self.snapshots += 1

    def _see(self, channel: str, key: str, ids: list[int]) -> None:
        """What appears later has a higher id: the order in which they commit."""
        seen = self._seen.setdefault((channel, key), set())
        new = set(ids) - seen
        assert not (new and seen) or min(new) > max(seen), (channel, key, new)
        seen |= new

    def _check(self, connection: Connection) -> None:
        self._drain(connection)
        ended = connection.execute("SELECT id, outcome FROM pgqueue_history").fetchall()
        assert Counter(id for id, _ in ended) == self.stored, "lost, or from nowhere, or twice"
        assert self.succeeded == Counter(id for id, outcome in ended if outcome == "succeeded")
        assert self.contradictions == 0
        rows = connection.execute(
            "SELECT channel, key, array_agg(id ORDER BY claimed_at), array_agg(id ORDER BY id) "
            "FROM pgqueue_history WHERE ordered AND outcome = 'succeeded' GROUP BY channel, key"
        )
        for channel, key, as_they_ran, in_order in rows:
            assert as_they_ran == in_order, (channel, key)
        starts = Starts()
        assert all(starts.is_within(PACE, "paced", None, at, 1) for at in sorted(self.started))
        # It was worth while.
        assert min(len(self.started), self.snapshots, len(self.stored)) > 50
        assert {outcome for _, outcome in ended} >= {"succeeded", "cancelled"}

    def _drain(self, connection: Connection) -> None:
        worker = Worker(connection)

        def is_empty() -> bool:
            connection.execute(
                "UPDATE pgqueue_message SET run_at = 'epoch' WHERE state = 'scheduled'; "
                "UPDATE pgqueue_message SET lease_until = 'epoch' WHERE state = 'running'"
            )
            lease.rescue(connection, max_lost=MAX_LOST)
            promote.promote(connection)
            rows = connection.execute("SELECT id FROM pgqueue_message WHERE state = 'dead'")
            dead.replay(connection, [id for (id,) in rows])
            while claims := worker.claim(100, 50, governed_first=True):
                self._note_starts(claims)
                self.succeeded.update(settle.complete(connection, [done(each) for each in claims]))
            rows = connection.execute("SELECT 1 FROM pgqueue_message LIMIT 1")
            return rows.fetchone() is None

        eventually(is_empty, within=60, what="everything ends")
        connection.execute("UPDATE pgqueue_lane SET turn_at = turn_at - interval '1 minute'")
        self.contradictions += route.tidy(connection)


def soon() -> timedelta:
    return timedelta(milliseconds=random.uniform(0, 20))


def locking() -> dict[str, Any]:
    """Return options for which a producer may have to wait for another."""
    return random.choice(
        [
            {"ordered": True},
            {"ordered": True},
            {"is_deduplicated": True},
            {"is_deduplicated": True, "ordered": True},
            {"is_deduplicated": True, "dedupe_for": soon()},
            {"is_deduplicated": True, "replaces": True},
        ]
    ).copy()
