"""Messages in every state they can be in, made by the engine's own verbs where it has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, time, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg.errors import DeadlockDetected
from psycopg.sql import SQL, Identifier, Literal

from pgqueue.engine import claim as claiming
from pgqueue.engine import collecting, event_partitions, identity, notifications, settle, workers
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine.claim import Answer, Known, Search
from pgqueue.engine.collecting import Join
from pgqueue.engine.enqueue import Enqueued
from pgqueue.engine.settle import Done, Failure
from pgqueue.engine.values import Claim, Cursors, Lease, Position
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Policy

Connection = psycopg.Connection[Any]
T = TypeVar("T")

LEASE = timedelta(seconds=30)
OVER = timedelta(seconds=-1)
"""As a lease: it has run out before anyone can look."""
SOON = timedelta(hours=1)


def store(
    connection: Cursors,
    key: str | Sequence[str] = "",
    *,
    payloads: Sequence[str] = ("{}",),
    ids: Sequence[int] | None = None,
    dedupe_keys: Sequence[str | None] | None = None,
    bodies: Sequence[bytes | None] | None = None,
    join: Join | None = None,
    **changed: Any,
) -> Enqueued:
    """Enqueue one message for each payload, or as many as there are keys, together."""
    common = enqueueing.Common(
        **{
            "channel": "default",
            "task": "tests.task",
            "metadata": "{}",
            "options": None,
            "priority": 0,
            "run_at": None,
            "run_after": None,
            "max_attempts": 5,
            **changed,
        }
    )
    keys = [key] * len(payloads) if isinstance(key, str) else key
    if len(payloads) == 1:
        payloads = [*payloads] * len(keys)
    if join is not None:
        return collecting.enqueue(
            connection, common, keys=keys, payloads=payloads, dedupe_keys=dedupe_keys, join=join
        )
    return enqueueing.enqueue(
        connection,
        common,
        keys=keys,
        payloads=payloads,
        ids=ids,
        dedupe_keys=dedupe_keys,
        bodies=bodies,
    )


def enqueue(connection: Cursors, count: int = 1, *, key: str = "", **changed: Any) -> list[int]:
    """Enqueue `count` messages of one lane; return their ids."""
    return list(store(connection, key, **{"payloads": ["{}"] * count, **changed}).ids)


def insert(connection: Connection, **columns: Any) -> int:
    """Insert a row just as it is given, in a state that no verb leads to, for example."""
    given = {
        "channel": "default",
        "task": "tests.task",
        "state": "ready",
        "max_attempts": 5,
        **columns,
    }
    row = connection.execute(
        SQL("INSERT INTO pgqueue_message ({}) VALUES ({}) RETURNING id").format(
            SQL(", ").join(map(Identifier, given)), SQL(", ").join(map(Literal, given.values()))
        )
    ).fetchone()
    assert row
    return int(row[0])


def ask(
    connection: Connection,
    *,
    known: Sequence[Known] = (),
    searched: Sequence[Search] = (),
    limit: int = 100,
    lease: timedelta = LEASE,
    worker_id: UUID | None = None,
) -> Answer:
    """Claim once, just as asked."""
    return claiming.claim(
        connection,
        known=known,
        searched=searched,
        limit=limit,
        worker_id=worker_id or uuid4(),
        lease=lease,
    )


def claim(
    connection: Connection,
    *channels: str,
    limit: int = 100,
    lease: timedelta = LEASE,
    worker_id: UUID | None = None,
) -> list[Claim]:
    """Claim once from the front of `channels`."""
    names = channels or ("default",)
    share = max(1, limit // len(names))
    searched = [Search(name, None, share, share) for name in names]
    return ask(connection, searched=searched, limit=limit, lease=lease, worker_id=worker_id).claims


def run(
    connection: Connection,
    count: int = 1,
    *,
    lease: timedelta = LEASE,
    worker_id: UUID | None = None,
    **changed: Any,
) -> list[Claim]:
    """Enqueue `count` messages and claim them, as a worker that runs them now; in order of id."""
    ids = enqueue(connection, count, **changed)
    channel = changed.get("channel", "default")
    claims = claim(connection, channel, limit=10_000, lease=lease, worker_id=worker_id)
    assert [each.id for each in claims] == ids, "other messages were ready there"
    return claims


def bury(connection: Connection, count: int = 1, **changed: Any) -> list[int]:
    """Make `count` dead letters."""
    claims = run(connection, count, **changed)
    settle.bury(connection, [failure(each) for each in claims])
    return [each.id for each in claims]


def schedule(connection: Cursors, count: int = 1, **changed: Any) -> list[int]:
    """Make `count` delayed messages that are due in an hour."""
    return enqueue(connection, count, **{"run_after": SOON, **changed})


def hold(connection: Cursors, count: int = 1, **changed: Any) -> list[int]:
    """Make `count` messages that are held for an hour."""
    return enqueue(connection, count, **{"held_for": SOON, **changed})


def ended(
    connection: Connection,
    count: int = 1,
    *,
    ago: timedelta = timedelta(),
    at: datetime | None = None,
    outcome: str = "succeeded",
    channel: str = "default",
) -> None:
    """Write messages into history that ended so long ago, or at a moment."""
    connection.execute(
        "INSERT INTO pgqueue_history (id, channel, key, task, metadata, priority, run_at, attempt, "
        "failures, lost, max_attempts, ordered, errors, created_at, outcome, finished_at) "
        "SELECT nextval('pgqueue_message_id_seq'), %(channel)s, '', 'tests.task', '{}', 0, at, 1, "
        "0, 0, 5, false, '[]', at, %(outcome)s, at "
        "FROM (SELECT coalesce(%(at)s::timestamptz, statement_timestamp() - %(ago)s) AS at) ended, "
        "generate_series(1, %(count)s)",
        {"channel": channel, "outcome": outcome, "at": at, "ago": ago, "count": count},
    )


def past(connection: Connection, ago: int) -> str:
    """Make the partition of a day so long ago, with a message in it; return its name."""
    day = datetime.now(UTC).date() - timedelta(days=ago)
    name = f"pgqueue_history_{day:%Y%m%d}"
    connection.execute(
        f"CREATE TABLE {name} PARTITION OF pgqueue_history "
        f"FOR VALUES FROM ('{day} 00:00Z') TO ('{day + timedelta(days=1)} 00:00Z')"
    )
    ended(connection, at=datetime.combine(day, time(12), UTC))
    return name


def logged(connection: Connection, position: int, *, ago: timedelta = timedelta()) -> None:
    """Put an event of some age into the log at a position; make its partition if it is missing.

    At the last position of a partition, that one is full.
    """
    event_partitions._make(connection, "public", position // event_partitions.SIZE)
    connection.execute(
        "INSERT INTO pgqueue_event (position, topic, key, metadata, created_at) "
        "VALUES (%s, 'a', '', '{}', statement_timestamp() - %s)",
        [position, ago],
    )


def subscribed(connection: Connection, name: str, *, position: int | None = None) -> None:
    """Have a subscription at a position of its own; None: where the dispatch is."""
    connection.execute(
        "INSERT INTO pgqueue_subscription (name, position, follows) VALUES (%s, %s, %s)",
        [name, position or 0, position is None],
    )


def log_as_migrated(connection: Connection) -> None:
    """Empty the log, and give it the partitions that it had at first."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relname ~ '^pgqueue_event_[0-9]+$' AND relkind = 'r'"
    ).fetchall()
    connection.execute("DELETE FROM pgqueue_event; DELETE FROM pgqueue_log_floor")
    for (name,) in rows:
        connection.execute(f"DROP TABLE {name}")
    event_partitions.ensure(connection)


def exported(
    connection: Connection, last: Position, *, name: str = "/lake", ago: timedelta = timedelta()
) -> None:
    """Note that history was exported to a target so long ago, up to a row."""
    connection.execute(
        "INSERT INTO pgqueue_export (target, batch, txid, message_id, exported_at, database) "
        "VALUES (%(name)s, 0, %(txid)s, %(id)s, statement_timestamp() - %(ago)s, %(database)s) "
        "ON CONFLICT (target) DO UPDATE SET txid = excluded.txid, "
        "message_id = excluded.message_id, exported_at = excluded.exported_at",
        {"name": name, "ago": ago, "database": identity.of(connection), **last._asdict()},
    )


def make_due(connection: Connection, ids: Iterable[int]) -> None:
    """Let the time of delayed messages have come."""
    connection.execute(
        "UPDATE pgqueue_message SET run_at = statement_timestamp() - interval '1 minute' "
        "WHERE id = ANY (%s)",
        [list(ids)],
    )


def done(
    lease: Lease | Claim, result: str | None = None, *, started: float = 0, finished: float = 0
) -> Done:
    """A run that succeeded."""
    return Done(lease, result, started, finished)


def failure(
    lease: Lease | Claim, error: str = '{"class": "Oops"}', *, delay: timedelta = timedelta()
) -> Failure:
    """A run that failed."""
    return Failure(lease, error, 0, delay)


def register(
    connection: Connection,
    *,
    channels: Sequence[str] | None = None,
    excluded: Sequence[str] = (),
    notify_for: timedelta | None = None,
    before: UUID | None = None,
) -> UUID:
    """Enter a worker that wants to be told for `notify_for`; return its id."""
    worker_id = uuid4()
    info = WorkerInfo(
        host="somewhere",
        pid=1,
        started_at=datetime.now(UTC),
        channels=channels,
        excluded=excluded,
        info={},
    )
    workers.register(connection, worker_id, info, before=before)
    workers.beat(connection, worker_id, notify_for=notify_for)
    return worker_id


def limit(channel: str = "default", scope: str = "each", key: str = "", **limits: Any) -> Policy:
    """Save a policy."""
    scope = "key" if key else scope
    return Policy.objects.create(channel=channel, scope=scope, key=key, **limits)


class Listening:
    """A session that listens, for new messages if not told otherwise."""

    def __init__(
        self, connection: Connection, listen: Callable[[Connection], object] = notifications.listen
    ) -> None:
        self._connection = connection
        self._heard: list[str] = []
        connection.add_notify_handler(lambda notify: self._heard.append(notify.payload))
        listen(connection)

    def heard(self) -> list[str]:
        """Return what committed transactions have said since it was last asked."""
        # A session that notified has signalled this backend before its COMMIT returned, and a
        # backend passes on what it was told before it says that it is ready again.
        self._connection.execute("SELECT 1")
        heard, self._heard[:] = list(self._heard), []
        return heard


def count_by(things: Iterable[T], by: Callable[[T], Any]) -> dict[Any, int]:
    """Count things by what `by` says of each."""
    return dict(Counter(map(by, things)))


def one(connection: Connection, query: str, *parameters: Any) -> tuple[Any, ...]:
    """Return the one row that a query gives."""
    (row,) = connection.execute(query, parameters).fetchall()
    return tuple(row)


def record(
    connection: Cursors,
    count: int = 1,
    *,
    topic: str = "order.paid",
    key: str = "",
    payload: str | None = "{}",
) -> list[int]:
    """Append events to the log; return their positions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgqueue_event (position, topic, key, payload, metadata, created_at) "
            "SELECT head + n, %s, %s, %s::jsonb, '{}', statement_timestamp() "
            "FROM (SELECT coalesce(max(position), 0) AS head FROM pgqueue_event) AS log, "
            "generate_series(1, %s) AS n RETURNING position",
            [topic, key, payload, count],
        )
        return [position for (position,) in cursor.fetchall()]


def drop(connection: Connection, function: str) -> None:
    """Drop a function with its triggers, also while other sessions read the tables of these.

    A trigger of a partitioned table takes several locks, which readers may take in another order.
    """
    for _ in range(9):
        with suppress(DeadlockDetected):
            connection.execute(f"DROP FUNCTION {function} CASCADE")
            return
    connection.execute(f"DROP FUNCTION {function} CASCADE")


@contextmanager
def refusing(
    connection: Connection, table: str, condition: str, on: str = "INSERT"
) -> Iterator[None]:
    """A trigger that raises for the rows of a table that meet a condition."""
    connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {condition} THEN RAISE 'refused' USING DETAIL = 'secret'; END IF;"
        " RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END; END $$"
    )
    connection.execute(
        f"CREATE TRIGGER refuse BEFORE {on} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    try:
        yield
    finally:
        drop(connection, "refuse")
