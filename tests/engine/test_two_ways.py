"""A fast implementation of a rule, and the general one, do the same on random input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier

from pgqueue.engine import claim as claiming
from pgqueue.engine import enqueue as engine
from pgqueue.engine import publish as publishing
from pgqueue.engine.claim import Search
from pgqueue.engine.enqueue import Common, Enqueued
from pgqueue.engine.publish import NewEvent
from pgqueue.exceptions import ChannelFull, InvalidEvent
from pgqueue.options.filters import as_topic
from tests.factories import Connection

pytestmark = pytest.mark.slow

BOUNDED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LEASE = timedelta(minutes=1)
SOON = datetime(2999, 1, 1, tzinfo=UTC)


@contextmanager
def rolled_back(connection: Connection) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        yield


# --- Enqueue: the function for what is plain, the one for everything, and COPY

TEXTS = st.sampled_from(
    ["", "a", "b", "\t", "\\N", "\\", "é\U0001f600", "a\nb\rc", "'\"%s", "\x7f"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
COMMON = st.fixed_dictionaries(
    {
        "task": TEXTS,
        "metadata": st.dictionaries(TEXTS, JSON, max_size=2).map(json.dumps),
        "options": st.none() | st.dictionaries(TEXTS, JSON, max_size=2).map(json.dumps),
        "priority": st.integers(-100, 100),
        "max_attempts": st.integers(1, 9),
        "run_at": st.none() | st.sampled_from([SOON, datetime(2000, 1, 1, tzinfo=UTC)]),
        "run_after": st.none() | st.sampled_from([timedelta(), timedelta(hours=1), -timedelta(1)]),
        "expires_at": st.none() | st.just(SOON),
        "expires_after": st.none() | st.just(timedelta(days=1)),
        "held_for": st.none() | st.just(timedelta(hours=1)),
        "ordered": st.booleans(),
        "parent_id": st.none() | st.integers(1, 9),
    }
)
PLAIN = COMMON.map(
    lambda given: {**given, "run_at": None, "run_after": None, "held_for": None, "ordered": False}
)
NEARLY_PLAIN = st.tuples(
    PLAIN,
    st.sampled_from(
        [
            {"run_at": SOON},
            {"run_at": datetime(2000, 1, 1, tzinfo=UTC)},
            {"run_after": timedelta(hours=1)},
            {"run_after": -timedelta(1)},
            {"held_for": timedelta(hours=1)},
            {"ordered": True},
        ]
    ),
).map(lambda each: {**each[0], **each[1]})
"""Options of which one alone asks for more than the short way does."""
SURROUNDINGS = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["", "channel", "each", "key"]),
        "limits": st.sampled_from([{"max_running": 1}, {"max_size": 1}, {"max_size": 2}]),
        "on_full": st.sampled_from(["raise", "drop"]),
        "watched": st.booleans(),
        "listens": st.booleans(),
    }
)
COLUMNS = """
    m.key, m.task, m.payload, m.metadata, m.options, m.priority, m.max_attempts, m.state,
    m.ordered, m.governed,
    m.parent_id, m.flow_id, m.dedupe_key, m.body, m.attempt, m.failures, m.lost, m.debounced,
    m.run_at - m.created_at BETWEEN '-1 second' AND '1 second', m.run_at = %(run_at)s::timestamptz,
    m.run_at - m.created_at = %(run_after)s::interval,
    m.expires_at IS NULL, m.expires_at = %(expires_at)s::timestamptz, m.lease_until IS NULL"""


def surround(connection: Connection, given: dict[str, Any], key: str) -> None:
    connection.execute(
        "INSERT INTO pgqueue_channel (name, on_full, watched) VALUES ('c', %s, %s)",
        [given["on_full"], given["watched"]],
    )
    if given["scope"] and (key or given["scope"] != "key"):
        [(limit, value)] = given["limits"].items()
        connection.execute(
            SQL(
                "INSERT INTO pgqueue_policy (channel, scope, key, {}) VALUES ('c', %s, %s, %s)"
            ).format(Identifier(limit)),
            [given["scope"], key if given["scope"] == "key" else "", value],
        )
    if given["listens"]:
        connection.execute(
            "INSERT INTO pgqueue_worker (id, host, pid, started_at, last_seen, notify_until, info) "
            "VALUES (gen_random_uuid(), '', 1, now(), now(), now() + interval '1 day', '{}')"
        )


Way = Callable[[Any, Common, str, str | None], Enqueued]


def short(connection: Any, common: Common, key: str, payload: str | None) -> Enqueued:
    return engine.enqueue(connection, common, keys=[key], payloads=[payload])


def general(connection: Any, common: Common, key: str, payload: str | None) -> Enqueued:
    return engine._each(connection, common, [key], [payload], None, None, None)


def many(connection: Any, common: Common, key: str, payload: str | None) -> Enqueued:
    nothing = [None, None]
    return engine.enqueue(
        connection, common, keys=[key] * 2, payloads=[payload] * 2, dedupe_keys=nothing
    )


def copied(connection: Any, common: Common, key: str, payload: str | None) -> Enqueued:
    return engine.enqueue(connection, common, keys=[key] * 2, payloads=[payload] * 2)


def twice(way: Way) -> Way:
    """Return the way that stores two messages, one after the other."""

    def both(connection: Any, common: Common, key: str, payload: str | None) -> Enqueued:
        first, second = (way(connection, common, key, payload) for _ in range(2))
        return first._replace(
            ids=[*first.ids, *second.ids], came_of=[*first.came_of, *second.came_of]
        )

    return both


def outcome(
    connection: Connection, way: Way, common: Common, key: str, payload: str | None, around: Any
) -> Any:
    """Return what came of it in such surroundings; nothing is left."""
    with rolled_back(connection):
        surround(connection, around, key)
        try:
            with connection.transaction():
                stored = way(connection, common, key, payload)
        except ChannelFull:
            return "full"
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM pgqueue_message m WHERE channel = 'c' ORDER BY id",  # noqa: S608
            common._asdict(),
        ).fetchall()
        bells = connection.execute("SELECT DISTINCT channel, key FROM pgqueue_bell").fetchall()
        said = [id is None for id in stored.ids], list(stored.came_of), stored.state
        return rows, bells, said, stored.is_told
    raise AssertionError


@BOUNDED
@given(
    given=COMMON | PLAIN | NEARLY_PLAIN,
    key=TEXTS,
    payload=st.none() | JSON.map(json.dumps),
    around=SURROUNDINGS,
)
def test_each_way_to_enqueue_stores_and_tells_the_same(
    connection: Connection, given: dict[str, Any], key: str, payload: str | None, around: Any
) -> None:
    common = Common(channel="c", **given)

    expected = outcome(connection, twice(general), common, key, payload, around)

    for way in (twice(short), many, copied):
        assert outcome(connection, way, common, key, payload, around) == expected, way


# --- Claim: of one channel at once, and the claim for all lanes

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["", "a"]),
            "state": st.sampled_from(
                ["ready", "ready", "ready", "running", "dead", "scheduled", "held"]
            ),
            "priority": st.integers(-2, 2),
            "task": st.sampled_from(["t", ""]),
            "run_at": st.integers(-3, 0),
            "expires": st.sampled_from([None, None, -60, 60]),
        }
    ),
    max_size=8,
)


@BOUNDED
@given(
    messages=MESSAGES,
    one_key=st.booleans(),
    takes_raw=st.booleans(),
    limit=st.integers(1, 9),
    is_paused=st.sampled_from([False, False, True]),
    policy=st.sampled_from(["", "", "max_running", "max_size"]),
    handler=st.sampled_from(["", "", "h"]),
)
def test_a_claim_at_once_takes_what_the_general_claim_takes(
    connection: Connection,
    messages: Sequence[dict[str, Any]],
    one_key: bool,
    takes_raw: bool,
    limit: int,
    is_paused: bool,
    policy: str,
    handler: str,
) -> None:
    def taken(verb: Callable[[], list[Any]]) -> list[tuple[Any, ...]]:
        with rolled_back(connection):
            connection.execute(
                "INSERT INTO pgqueue_channel (name, paused, handler) VALUES ('c', %s, %s)",
                [is_paused, handler],
            )
            for each in messages:
                connection.execute(
                    "INSERT INTO pgqueue_message (channel, key, task, state, priority, "
                    "max_attempts, run_at, expires_at) "
                    "VALUES ('c', %(key)s, %(task)s, %(state)s, %(priority)s, 5, "
                    "statement_timestamp() + %(run_at)s * interval '1 hour', "
                    "statement_timestamp() + %(expires)s * interval '1 hour')",
                    {**each, "key": "" if one_key else each["key"]},
                )
            if policy:
                # As a policy that is newer than the messages.
                connection.execute(
                    SQL(
                        "INSERT INTO pgqueue_policy (channel, scope, key, {}) "
                        "VALUES ('c', 'each', '', 5)"
                    ).format(Identifier(policy))
                )
            claims = verb()
            ids = connection.execute("SELECT min(id) FROM pgqueue_message").fetchone()
            begin = (ids[0] if ids else None) or 0
            rows = connection.execute(
                "SELECT id - %s, state, attempt, worker_id IS NULL "
                "FROM pgqueue_message ORDER BY id",
                [begin],
            ).fetchall()
            return [tuple(each.id - begin for each in claims), *rows]
        raise AssertionError

    def at_once() -> list[Any]:
        return claiming.claim_at_once(
            connection, "c", limit=limit, worker_id=uuid4(), lease=LEASE, takes_raw=takes_raw
        )

    def in_general() -> list[Any]:
        search = Search(channel="c", after=None, room=9, share=limit * 9)
        answer = claiming.claim(
            connection,
            known=(),
            searched=[search],
            limit=limit,
            worker_id=uuid4(),
            lease=LEASE,
            takes_raw=takes_raw,
        )
        return answer.claims

    if policy == "max_running":
        # A limit is for the general claim, which looks at each lane.
        assert taken(at_once)[:1] == [()]
    else:
        assert taken(at_once) == taken(in_general)


# --- Publish: the function, SQL's own, and COPY

EVENTS = st.lists(
    st.builds(
        NewEvent,
        topic=st.sampled_from(["a", "a.b", "\\N", "é\\t", "\U0001f600.x"]),
        key=TEXTS,
        payload=st.none() | JSON.map(json.dumps),
        metadata=st.dictionaries(TEXTS, JSON, max_size=2).map(json.dumps),
    ),
    min_size=1,
    max_size=4,
)


@BOUNDED
@given(events=EVENTS)
@pytest.mark.polled
def test_each_way_to_publish_stores_the_same(
    connection: Connection, events: list[NewEvent]
) -> None:
    def stored(publish: Callable[[], Any]) -> list[Any]:
        with rolled_back(connection):
            publish()
            return connection.execute(
                "SELECT topic, key, payload, payload IS NULL, metadata, created_at IS NULL "
                "FROM pgqueue_event_inbox ORDER BY id"
            ).fetchall()
        raise AssertionError

    def one_by_one() -> None:
        for event in events:
            publishing.publish(connection, event)

    def by_sql() -> None:
        for event in events:
            connection.execute(
                "SELECT pgqueue_publish(topic => %s, payload => %s::jsonb, key => %s, "
                "metadata => %s::jsonb)",
                [event.topic, event.payload, event.key, event.metadata],
            )

    together = stored(lambda: publishing.publish_many(connection, events))

    assert stored(one_by_one) == together
    assert stored(by_sql) == together


SPACES = [chr(number) for number in range(0x3001) if chr(number).isspace()]


@BOUNDED
@given(
    topic=st.text(
        st.sampled_from(["a", "é", ".", "*", "\\", "\u200b", "\U0001f600", *SPACES]), max_size=5
    )
)
@example(topic="")
@example(topic="a" * 201)
@example(topic="a\x1f")
def test_both_ways_to_publish_refuse_the_same_topics(connection: Connection, topic: str) -> None:
    def is_refused(publish: Callable[[], Any], error: type[Exception]) -> bool:
        with rolled_back(connection):
            try:
                publish()
            except error:
                return True
            return False
        raise AssertionError

    by_python = is_refused(lambda: as_topic(topic), InvalidEvent)
    by_sql = is_refused(
        lambda: connection.execute("SELECT pgqueue_publish(%s)", [topic]),
        psycopg.errors.InvalidParameterValue,
    )

    assert by_sql == by_python
