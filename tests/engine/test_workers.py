"""Rows of workers: who lives, who waits to be told, and what is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from pgqueue.engine import cancel, dead, lease, route, settle, workers
from pgqueue.engine.settle import Deferral
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Bell, Channel, Lane, Message, Worker
from pgqueue.states import State
from tests.engine.flow_graphs import Graph, succeed
from tests.factories import (
    OVER,
    Connection,
    bury,
    claim,
    done,
    enqueue,
    failure,
    insert,
    register,
    run,
    schedule,
)

MINUTE = timedelta(minutes=1)


class TestAWorker:
    def test_registers_with_what_others_may_know(self, connection: Connection) -> None:
        started_at = datetime(2025, 1, 1, tzinfo=UTC)
        worker_id = uuid4()

        workers.register(
            connection,
            worker_id,
            WorkerInfo(
                host='a"b',
                pid=2**31 - 1,
                started_at=started_at,
                channels=['a"b', "{c,d}"],
                excluded=["NULL", ""],
                info={"é": [1]},
            ),
            before=None,
        )

        row = Worker.objects.get()
        assert (row.id, row.host, row.pid, row.started_at) == (
            worker_id,
            'a"b',
            2**31 - 1,
            started_at,
        )
        assert (row.channels, row.excluded) == (['a"b', "{c,d}"], ["NULL", ""])
        assert (row.info, row.notify_until) == ({"é": [1]}, None)

    def test_takes_a_new_id_in_place_of_the_one_before(self, connection: Connection) -> None:
        first = register(connection, notify_for=MINUTE)

        second = register(connection, before=first)

        assert list(Worker.objects.values_list("id", flat=True)) == [second]

    def test_may_register_twice(self, connection: Connection) -> None:
        worker_id = register(connection)
        info = WorkerInfo(
            host="", pid=1, started_at=datetime.now(UTC), channels=None, excluded=(), info={}
        )

        workers.register(connection, worker_id, info, before=None)

        assert Worker.objects.count() == 1

    def test_says_with_a_beat_until_when_it_wants_to_be_told(self, connection: Connection) -> None:
        worker_id = register(connection)
        connection.execute("UPDATE pgqueue_worker SET last_seen = 'epoch'")

        assert workers.beat(connection, worker_id, notify_for=MINUTE)

        row = Worker.objects.get()
        assert row.notify_until == row.last_seen + MINUTE
        assert row.last_seen.year > 2000

    def test_withdraws_with_the_next_beat(self, connection: Connection) -> None:
        worker_id = register(connection, notify_for=MINUTE)

        workers.beat(connection, worker_id, notify_for=None)

        assert Worker.objects.get().notify_until is None

    def test_learns_from_a_beat_that_it_was_taken_for_dead(self, connection: Connection) -> None:
        assert not workers.beat(connection, uuid4(), notify_for=None)
        assert not Worker.objects.exists()

    def test_that_stops_is_gone(self, connection: Connection) -> None:
        worker_id, other = register(connection), register(connection)

        workers.retire(connection, worker_id)
        workers.retire(connection, worker_id)

        assert Worker.objects.get().id == other

    def test_that_died_is_forgotten_after_a_while(self, connection: Connection) -> None:
        dead_one, alive = register(connection), register(connection)
        connection.execute(
            "UPDATE pgqueue_worker SET last_seen = last_seen - interval '1 hour' WHERE id = %s",
            [dead_one],
        )

        assert workers.forget(connection, silent_for=2 * 60 * MINUTE) == 0
        assert workers.forget(connection, silent_for=30 * MINUTE) == 1
        assert Worker.objects.get().id == alive


def test_a_signal_whose_bell_is_not_routed_is_unfinished_and_waits(connection: Connection) -> None:
    connection.execute("INSERT INTO pgqueue_bell (channel, woken) VALUES ('default', '{7}')")

    rung = unfinished(connection), waiting(connection)
    route.route(connection, after=0)

    assert rung == (True, 1)
    assert (unfinished(connection), waiting(connection)) == (False, 0)


def test_what_ended_and_may_let_others_go_is_unfinished_and_waits(connection: Connection) -> None:
    Graph(connection, {"a": "", "b": "a"})
    succeed(connection, claim(connection))

    ended = unfinished(connection), waiting(connection)
    route.route(connection, after=0)
    Message.objects.all().delete()

    assert ended == (True, 1)
    assert (unfinished(connection), waiting(connection)) == (False, 0)


class TestAnythingUnfinished:
    @pytest.mark.parametrize("state", State)
    def test_is_what_is_ready_or_running(self, connection: Connection, state: State) -> None:
        insert(connection, state=state)

        assert unfinished(connection) == (state in {State.READY, State.RUNNING})

    def test_is_nothing_where_nothing_is(self, connection: Connection) -> None:
        assert not unfinished(connection)

    def test_is_what_waits_for_a_retry(self, connection: Connection) -> None:
        (held,) = run(connection)
        settle.retry(connection, [failure(held, delay=MINUTE)])

        assert unfinished(connection)

    def test_is_what_waits_since_it_lost_its_workers(self, connection: Connection) -> None:
        run(connection, lease=OVER)
        connection.execute("UPDATE pgqueue_message SET lost = 1")
        lease.rescue(connection, max_lost=5)

        assert unfinished(connection)

    def test_is_not_what_is_merely_delayed_or_handed_back(self, connection: Connection) -> None:
        schedule(connection)
        (held,) = run(connection, channel="other")
        settle.defer(connection, [Deferral(held, MINUTE)])

        assert not unfinished(connection)

    def test_is_not_what_has_ended(self, connection: Connection) -> None:
        held = run(connection, 2)
        settle.complete(connection, [done(each) for each in held])
        cancel.cancel(connection, enqueue(connection))
        dead.discard(connection, bury(connection))

        assert not unfinished(connection)

    @pytest.mark.parametrize("ordered", [False, True])
    @pytest.mark.parametrize("ready", [True, False])
    def test_is_a_bell_or_a_lane_behind_which_something_is_ready(
        self, connection: Connection, ready: bool, ordered: bool
    ) -> None:
        insert(connection, governed=True, ordered=ordered, state="ready" if ready else "dead")
        assert not unfinished(connection)

        Bell.objects.create(channel="default")
        assert unfinished(connection) == ready

        Bell.objects.all().delete()
        at = datetime.now(UTC)
        Lane.objects.create(channel="default", key="", state="throttled", turn_at=at, tat=at)
        assert unfinished(connection) == ready

    @pytest.mark.parametrize(
        ("channels", "excluded", "expected"),
        [
            (None, [], True),
            (["default"], [], True),
            (["other"], [], False),
            ([], [], False),
            (None, ["default"], False),
            (["default"], ["default"], False),
        ],
    )
    @pytest.mark.parametrize("columns", [{}, {"state": "running"},
                                         {"state": "scheduled", "failures": 1}])  # fmt: skip
    def test_is_of_the_channels_that_are_served(
        self,
        connection: Connection,
        columns: dict[str, object],
        channels: Sequence[str] | None,
        excluded: Sequence[str],
        expected: bool,
    ) -> None:
        insert(connection, **columns)

        assert unfinished(connection, channels=channels, excluded=excluded) == expected

    @pytest.mark.parametrize(
        ("columns", "expected"),
        [({}, False), ({"state": "running"}, True), ({"state": "scheduled", "lost": 1}, False)],
    )
    def test_is_not_what_a_paused_channel_keeps_back(
        self, connection: Connection, columns: dict[str, object], expected: bool
    ) -> None:
        Channel.objects.create(name="default", paused=True)
        insert(connection, **columns)

        assert unfinished(connection) == expected


def unfinished(
    connection: Connection,
    *,
    channels: Sequence[str] | None = None,
    excluded: Sequence[str] = (),
) -> bool:
    return workers.unfinished(connection, channels=channels, excluded=excluded)


def waiting(connection: Connection, limit: int = 10, **served: Any) -> int:
    return workers.waiting(connection, **{"channels": None, "excluded": [], **served}, limit=limit)


class TestWhatWaitsForAWorker:
    @pytest.mark.parametrize("state", State)
    def test_is_what_is_ready(self, connection: Connection, state: State) -> None:
        insert(connection, state=state)

        assert waiting(connection) == (state == State.READY)

    def test_is_counted_up_to_a_limit(self, connection: Connection) -> None:
        enqueue(connection, 5)

        assert (waiting(connection), waiting(connection, limit=3)) == (5, 3)

    def test_is_not_on_a_channel_that_is_paused_or_not_served(self, connection: Connection) -> None:
        insert(connection)
        others = [
            waiting(connection, channels=["other"]),
            waiting(connection, excluded=["default"]),
        ]
        Channel.objects.create(name="default", paused=True)

        assert [*others, waiting(connection)] == [0, 0, 0]

    def test_is_a_bell_or_a_lane_that_has_its_turn(self, connection: Connection) -> None:
        insert(connection, governed=True)
        alone = waiting(connection)
        Bell.objects.create(channel="default")
        rung = waiting(connection)
        Bell.objects.all().delete()
        at = datetime.now(UTC)
        lane = Lane.objects.create(
            channel="default", key="", state="throttled", wake_at=at + MINUTE, turn_at=at, tat=at
        )
        throttled = waiting(connection)
        Lane.objects.filter(pk=lane.pk).update(wake_at=at - MINUTE)

        assert (alone, rung, throttled, waiting(connection)) == (0, 1, 0, 1)


class TestADriver:
    def test_has_the_workers_that_name_it(self, connection: Connection) -> None:
        driver, *others = (register(connection) for _ in range(3))
        Worker.objects.filter(pk=others[0]).update(info={"driver": str(driver)})

        assert workers.workers_of(connection, driver) == [others[0]]
        assert workers.workers_of(connection, others[0]) == []

    def test_is_asked_how_often_it_wants_them_to_stop(self, connection: Connection) -> None:
        driver = register(connection)
        before = workers.requests_of(connection, driver)

        workers.ask_to_stop(connection, driver, 2)

        after = workers.requests_of(connection, driver)
        assert before and after
        assert (before[0], after[0]) == (0, 2)
        assert after[1] < MINUTE

    def test_that_has_no_row_asks_nothing(self, connection: Connection) -> None:
        assert workers.requests_of(connection, uuid4()) is None
