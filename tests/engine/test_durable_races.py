"""Durable runs at the critical moment, stepped by hand: waits, wake-ups, ends and losses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from pgqueue import publish
from pgqueue.durable import DurableContext, waiting
from pgqueue.engine import (
    cancel,
    dispatch,
    lease,
    promote,
    route,
    sequence,
    settle,
    signalling,
    steps,
    waking,
)
from pgqueue.engine.culprits import WHOLE
from pgqueue.engine.settle import Done, DoneDurably, Suspension
from pgqueue.engine.steps import StoredStep
from pgqueue.engine.values import Claim
from pgqueue.models import Bell, History, Message, Step, StoredSignal
from pgqueue.tasks import rerunning
from pgqueue.testing import run_all
from tests.durable.running import add, calls, durable
from tests.factories import OVER, Connection, claim, one, run
from tests.stepping import Step as Stepped

HOUR = timedelta(hours=1)
Stepping = Callable[..., Stepped]


@pytest.fixture(autouse=True)
def _tasks_are_forgotten(own_tasks: None) -> Iterator[None]:
    calls.clear()
    yield
    calls.clear()


def suspend(connection: Connection, held: Claim, *, delay: timedelta | None = None) -> set[int]:
    """End a run that waits for the signal `go`."""
    row = {"name": "wait:go", "number": 1, "kind": "signal", "state": "waiting", "signals": ["go"]}
    wait = Suspension(held, json.dumps([row]), delay, None, True, False, False)
    return settle.suspend(connection, [wait])


def send(connection: Connection, held: Claim, payload: str = "1", **options: Any) -> str:
    return signalling.send(connection, held.id, "go", payload, **options)


def look(connection: Connection) -> None:
    """Do what the router does."""
    with connection.transaction():
        route.route(connection, after=0)


def take(connection: Connection, held: Claim, name: str = "wait:go") -> steps.Taken:
    return steps.take_signal(connection, held, StoredStep(name, 1, "signal"), ["go"])


def state() -> str:
    return str(Message.objects.get().state)


def make_over(connection: Connection) -> None:
    connection.execute("UPDATE pgqueue_message SET run_at = 'epoch' WHERE state = 'scheduled'")
    connection.execute("UPDATE pgqueue_step SET until = 'epoch' WHERE until IS NOT NULL")


class TestASignalAgainstASuspension:
    @pytest.mark.parametrize("first", ["signal", "suspension"])
    @pytest.mark.parametrize("looks", [(), (0,), (1,), (0, 1)])
    @pytest.mark.parametrize("delay", [None, HOUR])
    def test_wakes_the_run_once_in_whatever_order_they_commit(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        first: str,
        looks: tuple[int, ...],
        delay: timedelta | None,
    ) -> None:
        [held] = run(connection)
        open_ = {"signal": ExitStack(), "suspension": ExitStack()}
        open_["signal"].enter_context(other.transaction())
        open_["suspension"].enter_context(third.transaction())
        send(other, held)
        assert suspend(third, held, delay=delay) == {held.id}
        for number, name in enumerate(sorted(open_, key=lambda name: name != first)):
            if number in looks:
                look(connection)
            open_[name].close()

        look(connection)

        assert state() == "ready"
        [again] = claim(connection)
        assert take(connection, again).came_of == "taken"
        assert suspend(connection, again)
        look(connection)
        assert state() == "held"
        assert not Bell.objects.exists()

    def test_that_came_before_needs_no_other_bell(self, connection: Connection) -> None:
        [held] = run(connection)
        send(connection, held)
        look(connection)
        suspend(connection, held)

        look(connection)

        assert state() == "ready"

    def test_that_commits_between_the_bells_and_the_look_wakes_it_once(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        with connection.transaction():
            connection.execute(
                route.SQL["take"], {**WHOLE._asdict(), "after": 0, "limit": 100, "is_pooled": False}
            )
            send(other, held)
            assert len(waking.wake(connection, {held.id})) == 1

        assert state() == "ready"
        [again] = claim(connection)
        look(connection)  # the bell of the signal is left
        assert state() == "running"
        assert take(connection, again).came_of == "taken"

    def test_to_a_locked_message_is_found_by_the_duty(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message FOR UPDATE")
            send(connection, held)
            look(connection)
            assert state() == "held"

        assert waking.ring_missed(connection) == 1
        look(connection)
        assert state() == "ready"
        assert waking.ring_missed(connection) == 0

    def test_of_a_run_that_was_lost_meanwhile_is_taken_by_the_next_one(
        self, connection: Connection
    ) -> None:
        [held] = run(connection, lease=OVER)
        send(connection, held)
        lease.rescue(connection, max_lost=3)

        assert suspend(connection, held) == set()
        assert take(connection, held).came_of == "lost"
        [again] = claim(connection)
        assert take(connection, again).came_of == "taken"
        assert not Step.objects.exclude(state="done").exists()


class TestATimeoutAgainstASignal:
    def test_that_is_promoted_meanwhile_runs_once_and_takes_the_signal(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held, delay=HOUR)
        make_over(connection)
        with other.transaction():
            promote.promote(other)
            send(connection, held)
            look(connection)
            assert state() == "scheduled"

        waking.ring_missed(connection)
        look(connection)
        [again] = claim(connection)
        look(connection)
        assert claim(connection) == []
        assert take(connection, again).came_of == "taken"

    def test_that_is_woken_meanwhile_runs_once(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held, delay=HOUR)
        make_over(connection)
        send(connection, held)
        with other.transaction():
            route.route(other, after=0)
            promote.promote(connection)
            assert state() == "scheduled"
        promote.promote(connection)

        [again] = claim(connection)
        promote.promote(connection)
        assert claim(connection) == []
        assert take(connection, again).came_of == "taken"

    def test_that_has_ended_the_wait_leaves_the_signal_to_the_next_one(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held, delay=HOUR)
        make_over(connection)
        promote.promote(connection)
        [again] = claim(connection)
        with other.transaction():
            send(other, held)
            assert take(connection, again).came_of == "over"

        assert Step.objects.get().state == "done"
        assert take(connection, again, "wait:go#2").came_of == "taken"


class TestAnEventAgainstAWait:
    """The run registers its wait, looks at the log, and suspends; the event comes in between."""

    def deliver(self, connection: Connection) -> None:
        sequence.catch_up(connection)
        with connection.transaction():
            dispatch.step(connection)

    def of(self) -> Any:
        @durable
        def works(run: DurableContext) -> Any:
            event = run.wait_for_event("paid", key="7")
            return event and event.payload

        return works

    @pytest.mark.parametrize("moment", ["before the look", "behind the look"])
    @pytest.mark.parametrize("is_delivered", [True, False])
    def test_is_found_once(self, connection: Connection, moment: str, is_delivered: bool) -> None:
        real = waiting._look

        def look_amid(*given: Any) -> Any:
            found = None if moment == "before the look" else real(*given)
            publish("paid", 1, key="7")
            if is_delivered:
                self.deliver(connection)
            return real(*given) if moment == "before the look" else found

        result = self.of().enqueue()
        with patch.object(waiting, "_look", look_amid):
            run_all()
        self.deliver(connection)
        run_all()
        result.refresh()

        assert result.return_value == 1
        self.deliver(connection)
        assert run_all() == []

    def test_of_a_transaction_that_was_open_all_the_time_is_found(
        self, connection: Connection, other: Connection
    ) -> None:
        with other.transaction():
            other.execute("SELECT pgqueue_publish('paid', '1', key => '7')")
            result = self.of().enqueue()
            publish("paid", 9, key="8")
            self.deliver(connection)
            run_all()
            publish("paid", 9, key="8")
            self.deliver(connection)
        self.deliver(connection)
        run_all()
        result.refresh()

        assert result.return_value == 1

    def test_that_is_dispatched_before_the_wait_is_committed_is_seen_by_the_look(
        self, connection: Connection
    ) -> None:
        real = waiting.event_waits.add

        def add_amid(*given: Any, **options: Any) -> None:
            real(*given, **options)
            # Not committed yet: the dispatch does not see the wait.
            publish_elsewhere(connection)
            self.deliver(connection)

        result = self.of().enqueue()
        with patch.object(waiting.event_waits, "add", add_amid):
            run_all()
        result.refresh()

        assert result.return_value == 1


def publish_elsewhere(connection: Connection) -> None:
    connection.execute("SELECT pgqueue_publish('paid', '1', key => '7')")


class TestACancellationAgainstAWakeUp:
    def test_that_is_not_committed_yet_wins(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        with other.transaction():
            assert cancel.cancel(other, [held.id]).ended == {held.id}
            send(connection, held)
            look(connection)

        look(connection)
        assert waking.ring_missed(connection) == 0
        assert History.objects.get().outcome == "cancelled"
        assert not Message.objects.exists()
        connection.execute("UPDATE pgqueue_signal SET sent_at = 'epoch'")
        waking.forget_strays(connection)
        assert not StoredSignal.objects.exists()

    def test_waits_for_a_wake_up_and_ends_the_message(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        send(connection, held)
        with connection.transaction():
            route.route(connection, after=0)
            cancelling = step(cancel.cancel, other, [held.id])
            cancelling.waits()

        assert cancelling.result().ended == {held.id}
        assert History.objects.get().outcome == "cancelled"
        assert History.objects.get().steps["signals"][0]["name"] == "go"
        assert not Step.objects.exists()

    def test_that_is_rolled_back_loses_no_wake_up(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        with other.transaction(force_rollback=True):
            cancel.cancel(other, [held.id])
            send(connection, held)
            look(connection)

        assert waking.ring_missed(connection) == 1
        look(connection)
        assert state() == "ready"


class TestAForkAgainstAnEnd:
    @pytest.mark.parametrize("moment", ["before", "behind"])
    def test_has_the_steps_all_the_same(self, connection: Connection, moment: str) -> None:
        @durable
        def works(run: DurableContext) -> int:
            return run.step(add, 1, 1) + (run.wait_for("go", int) or 0)

        result = works.enqueue()
        run_all()
        waiting_before = Message.objects.get().id
        real = rerunning._store

        def end() -> None:
            result.signal("go", 5)
            connection.execute("UPDATE pgqueue_message SET state = 'ready' WHERE state = 'held'")
            [held] = [each for each in claim(connection) if each.id == waiting_before]
            take(connection, held)
            settle.complete_durable(connection, [DoneDurably(Done(held, "7", 0, 0), None)])

        def store_amid(*given: Any) -> int:
            if moment == "before":
                end()
            return real(*given)

        with patch.object(rerunning, "_store", store_amid):
            forked = result.fork(after="add")
        if moment == "behind":
            end()

        assert History.objects.get().outcome == "succeeded"
        [step] = Step.objects.all()
        assert (step.message_id, step.name, step.result) == (int(forked.id), "add", 2)


class TestTwoSignalsAtOnce:
    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_are_both_taken_once(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        order: tuple[int, int],
    ) -> None:
        [held] = run(connection)
        suspend(connection, held)
        open_ = [ExitStack(), ExitStack()]
        for number, (stack, session) in enumerate(zip(open_, (other, third), strict=True)):
            stack.enter_context(session.transaction())
            send(session, held, str(number))
        taken = []
        for number in order:
            open_[number].close()
            look(connection)
            [again] = claim(connection)
            came_of, result = take(connection, again, f"wait {number}")
            taken.append((came_of, json.loads(result or "{}").get("payload")))
            suspend(connection, again)

        assert taken == [("taken", number) for number in order]
        look(connection)
        assert state() == "held"

    @pytest.mark.parametrize("is_undone", [True, False])
    def test_with_one_dedupe_id_count_once(
        self, connection: Connection, other: Connection, step: Stepping, is_undone: bool
    ) -> None:
        [held] = run(connection)
        with connection.transaction(force_rollback=is_undone):
            assert send(connection, held, dedupe_id="7") == "sent"
            second = step(send, other, held, dedupe_id="7")
            second.waits()

        assert second.result() == ("sent" if is_undone else "repeated")
        assert StoredSignal.objects.count() == 1

    def test_ring_once_for_one_look(self, connection: Connection) -> None:
        [held] = run(connection)
        suspend(connection, held)
        send(connection, held)
        send(connection, held)

        look(connection)

        assert state() == "ready"
        assert not Bell.objects.exists()


class TestARescueAgainstTheCommitOfAStep:
    def store(self, connection: Connection, held: Claim) -> str:
        return steps.store(connection, held, StoredStep("charge", 1, "step", result="7"))

    def test_that_is_not_committed_yet_is_waited_for(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        [held] = run(connection, lease=OVER)
        with connection.transaction():
            assert len(lease.rescue(connection, max_lost=3)) == 1
            storing = step(self.store, other, held)
            storing.waits()

        assert storing.result() == "lost"
        assert not Step.objects.exists()

    def test_that_is_rolled_back_leaves_the_step(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        [held] = run(connection, lease=OVER)
        with connection.transaction(force_rollback=True):
            lease.rescue(connection, max_lost=3)
            storing = step(self.store, other, held)
            storing.waits()

        assert storing.result() == "stored"
        assert Step.objects.get().result == 7

    def test_skips_a_run_that_is_about_to_commit_and_counts_its_step(
        self, connection: Connection, other: Connection
    ) -> None:
        [held] = run(connection, lease=OVER)
        connection.execute("UPDATE pgqueue_message SET lost = 2, started_at = claimed_at")
        with other.transaction():
            assert self.store(other, held) == "stored"
            assert lease.rescue(connection, max_lost=3) == []

        assert len(lease.rescue(connection, max_lost=3)) == 1
        assert one(connection, "SELECT state, lost FROM pgqueue_message") == ("ready", 1)
        assert self.store(connection, held) == "lost"

    def test_a_zombie_takes_no_signal(
        self, connection: Connection, other: Connection, step: Stepping
    ) -> None:
        [held] = run(connection, lease=OVER)
        send(connection, held)
        with connection.transaction():
            lease.rescue(connection, max_lost=3)
            taking = step(take, other, held)
            taking.waits()

        assert taking.result().came_of == "lost"
        assert StoredSignal.objects.get().taken_by is None
