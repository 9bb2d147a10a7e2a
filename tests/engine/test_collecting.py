"""Messages that collect: two producers at once, and a producer beside a claim."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgqueue.engine import collecting
from pgqueue.engine.enqueue import Enqueued
from pgqueue.models import Message
from tests.factories import Connection, claim, limit, store
from tests.stepping import Step

MINUTE = timedelta(minutes=1)


def join(task: str, stored: str, new: str) -> str | None:
    """Join two lists of at most five items together."""
    items = json.loads(stored)["args"][0] + json.loads(new)["args"][0]
    return payload(*items) if len(items) <= 5 else None


def payload(*items: int) -> str:
    return json.dumps({"args": [list(items)], "kwargs": {}})


def collect(connection: Connection, *items: int, key: str | None = "k", **changed: Any) -> Enqueued:
    return store(
        connection,
        payloads=[payload(*items)],
        dedupe_keys=[key],
        join=join,
        replaces=True,
        **changed,
    )


def lists(**of: Any) -> list[list[int]]:
    found = Message.objects.filter(**of).order_by("id").values_list("payload", flat=True)
    return [each["args"][0] for each in found]


class TestTwoAtOnce:
    def test_are_one_where_the_first_commits(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction():
            (first,) = collect(connection, 1).ids
            second = step(collect, other, 2)
            second.waits()

        assert (second.result().ids, list(second.result().came_of)) == ([first], ["collected"])
        assert lists() == [[1, 2]]

    def test_are_not_mixed_where_the_first_rolls_back(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        with connection.transaction(force_rollback=True):
            collect(connection, 1)
            second = step(collect, other, 2)
            second.waits()

        assert list(second.result().came_of) == ["stored"]
        assert lists() == [[2]]

    def test_lose_nothing_where_one_waits_already(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        collect(connection, 1)
        with connection.transaction():
            collect(connection, 2)
            second = step(collect, other, 3)
            second.waits()

        assert list(second.result().came_of) == ["collected"]
        assert lists() == [[1, 2, 3]]

    def test_are_undone_with_their_transaction(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        collect(connection, 1)
        with connection.transaction(force_rollback=True):
            collect(connection, 2)
            second = step(collect, other, 3)
            second.waits()

        second.result()
        assert lists() == [[1, 3]]

    def test_keep_their_own_times_where_the_first_is_full_meanwhile(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        collect(connection, 1, 2, 3, 4)
        with connection.transaction():
            collect(connection, 5, 6)
            second = step(collect, other, 7)
            second.waits()

        assert list(second.result().came_of) == ["collected"]
        assert lists() == [[1, 2, 3, 4], [5, 6, 7]]

    @pytest.mark.parametrize("changed", [{}, {"ordered": True}, {"channel": "bounded"}])
    def test_of_several_keys_never_deadlock(
        self,
        connection: Connection,
        other: Connection,
        step: Callable[..., Step],
        changed: dict[str, Any],
    ) -> None:
        limit("bounded", scope="channel", max_size=10)

        def several(connection: Connection, *keys: str) -> Enqueued:
            with connection.transaction():
                return store(
                    connection,
                    payloads=[payload(1)] * len(keys),
                    dedupe_keys=keys,
                    join=join,
                    replaces=True,
                    **changed,
                )

        with connection.transaction():
            collect(connection, 1, key="a", **changed)
            second = step(several, other, "b", "a")
            second.waits()
            collect(connection, 1, key="b", **changed)

        assert list(second.result().came_of) == ["collected", "collected"]
        assert lists() == [[1, 1], [1, 1]]


class TestBesideAClaim:
    def test_a_collector_waits_for_the_claim_and_stores_another(
        self, connection: Connection, other: Connection, step: Callable[..., Step]
    ) -> None:
        collect(connection, 1)
        with connection.transaction():
            [claimed] = claim(connection)
            second = step(collect, other, 2)
            second.waits()

        assert list(second.result().came_of) == ["stored"]
        assert json.loads(claimed.payload or b"")["args"] == [[1]]
        assert lists(state="running") == [[1]]
        assert lists(state="ready") == [[2]]

    def test_a_claim_passes_by_a_collector_and_then_gets_all(
        self, connection: Connection, other: Connection
    ) -> None:
        collect(connection, 1)
        with connection.transaction():
            collect(connection, 2)
            assert claim(other) == []

        [claimed] = claim(other)

        assert json.loads(claimed.payload or b"")["args"] == [[1, 2]]

    def test_one_that_runs_is_left_alone(self, connection: Connection) -> None:
        collect(connection, 1)
        claim(connection)

        assert list(collect(connection, 2).came_of) == ["stored"]
        assert list(collect(connection, 3).came_of) == ["collected"]
        assert lists() == [[1], [2, 3]]


class TestAMessage:
    def test_that_is_full_keeps_its_time_and_gives_up_its_key(self, connection: Connection) -> None:
        (first,) = collect(connection, 1, 2, 3, 4, run_after=MINUTE).ids
        due = Message.objects.get().run_at

        stored = collect(connection, 5, 6, run_after=2 * MINUTE)

        assert list(stored.came_of) == ["stored"]
        full = Message.objects.get(pk=first)
        assert (full.run_at, full.dedupe_key, full.state) == (due, None, "scheduled")
        assert lists(dedupe_key="k") == [[5, 6]]

    @pytest.mark.parametrize("state", ["scheduled", "ready"])
    def test_that_waits_collects(self, connection: Connection, state: str) -> None:
        times = {"scheduled": {"run_after": MINUTE}}
        collect(connection, 1, **times.get(state, {}))

        assert list(collect(connection, 2, **times.get(state, {})).came_of) == ["collected"]
        assert lists(state=state) == [[1, 2]]

    def test_that_is_held_waits_for_its_own_commit_and_collects_nothing(
        self, connection: Connection
    ) -> None:
        store(connection, payloads=[payload(1)], dedupe_keys=["k"], held_for=MINUTE)

        assert list(collect(connection, 2).came_of) == ["stored"]
        assert lists(state="held") == [[1]]
        assert lists(dedupe_key="k", state="ready") == [[2]]

    def test_that_runs_and_keeps_its_key_has_others_stored_beside_it(
        self, connection: Connection
    ) -> None:
        """As SQL stores it: `pgqueue_enqueue` replaces nothing unless it is asked to."""
        (first,) = store(connection, payloads=[payload(1)], dedupe_keys=["k"]).ids
        claim(connection)

        stored = collect(connection, 2, 3)

        assert list(stored.came_of) == ["stored"]
        assert stored.ids != [first]
        assert lists(dedupe_key=None) == [[2, 3]]

    @pytest.mark.parametrize("items", [(2,), (2, 3, 4, 5, 6)])
    def test_of_a_flow_collects_nothing(
        self, connection: Connection, items: tuple[int, ...]
    ) -> None:
        (flow_id,) = connection.execute(
            "INSERT INTO pgqueue_flow (name) VALUES ('f') RETURNING id"
        ).fetchone() or (0,)
        (first,) = store(connection, payloads=[payload(1)], dedupe_keys=["k"], flow_id=flow_id).ids

        stored = collect(connection, *items)

        assert list(stored.came_of) == ["stored"]
        assert lists(pk=first) == [[1]]
        assert lists(dedupe_key=None) == [[*items]]

    def test_whose_key_is_remembered_is_the_answer(self, connection: Connection) -> None:
        (first,) = store(
            connection, payloads=[payload(1)], dedupe_keys=["k"], dedupe_for=MINUTE
        ).ids
        claim(connection)

        stored = collect(connection, 2)

        assert (list(stored.ids), list(stored.came_of)) == ([first], ["existing"])

    def test_without_a_key_is_stored(self, connection: Connection) -> None:
        for n in (1, 2):
            assert list(collect(connection, n, key=None).came_of) == ["stored"]

    def test_is_found_by_its_index(self, connection: Connection) -> None:
        collect(connection, 1)

        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL enable_seqscan = off")
            rows = connection.execute(
                "EXPLAIN " + collecting.SQL["waiting"], {"channel": "default", "dedupe_key": "k"}
            ).fetchall()

        assert "pgqueue_message_dedupe" in "".join(row[0] for row in rows)

    def test_that_changed_under_a_stricter_isolation_fails_as_postgresql_has_it(
        self, connection: Connection, other: Connection
    ) -> None:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with other.transaction():
            other.execute("SELECT 1")
            collect(connection, 1)
            with pytest.raises(psycopg.errors.SerializationFailure), other.transaction():
                collect(other, 2)

        assert lists() == [[1]]
