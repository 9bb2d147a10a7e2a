"""Recurring work: taken by one at a time, and never in each other's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import psycopg
import pytest
from django.db import connections
from psycopg.errors import IdleInTransactionSessionTimeout

from pgqueue import connections as module_of_connections
from pgqueue import signals
from pgqueue.claiming.upkeep import Upkeep
from pgqueue.conf import settings
from pgqueue.connections import Session
from pgqueue.engine import cancel, duty, lease, partitions, wait
from pgqueue.models import Duty, Message, Worker
from pgqueue.states import State
from pgqueue.worker.duties import Duty as Kind
from pgqueue.worker.duties import maintain
from pgqueue.worker.duties.doing import do
from pgqueue.worker.duties.forget import Forget
from pgqueue.worker.duties.partitions import Partitions
from pgqueue.worker.duties.promote import Promote
from pgqueue.worker.duties.rescue import Rescue
from pgqueue.worker.duties.service import Duties
from tests.eventually import eventually
from tests.factories import LEASE, OVER, Connection, make_due, one, past, register, run, schedule
from tests.hearing import heard
from tests.stepping import WITHIN, Step

MINUTE = timedelta(minutes=1)
NONE = timedelta()
ALWAYS = Mock(lasting=lambda connection: MINUTE)


class TestADuty:
    def test_without_a_row_is_due_at_once(self, connection: Connection) -> None:
        due = duty.due(connection, ["a", "b"])

        assert due == {"a": NONE, "b": NONE}
        assert set(Duty.objects.values_list("name", flat=True)) == {"a", "b"}
        assert duty.take(connection, "a", early=False)

    def test_keeps_the_row_it_has(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        duty.done(connection, "a", again_in=MINUTE)

        due = duty.due(connection, ["a", "b"])

        assert MINUTE - timedelta(seconds=20) < due["a"] <= MINUTE
        assert due["b"] == NONE

    def test_of_another_version_is_none_of_ours(self, connection: Connection) -> None:
        duty.due(connection, ["new", "shared"])

        assert set(duty.due(connection, ["shared"])) == {"shared"}

    def test_that_was_done_is_due_again_when_it_said(self, connection: Connection) -> None:
        duty.due(connection, ["a"])

        duty.done(connection, "a", again_in=MINUTE)

        row = Duty.objects.get()
        assert row.ran_at
        assert timedelta() <= MINUTE - (row.due_at - row.ran_at) < timedelta(seconds=1)
        assert not duty.take(connection, "a", early=False)

    def test_may_be_taken_early(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        duty.done(connection, "a", again_in=MINUTE)

        assert duty.take(connection, "a", early=True)

    def test_that_is_overdue_says_so(self, connection: Connection) -> None:
        duty.due(connection, ["a"])
        connection.execute(
            "UPDATE pgqueue_duty SET due_at = clock_timestamp() - interval '1 minute'"
        )

        assert duty.due(connection, ["a"])["a"] <= -MINUTE

    def test_is_due_by_the_clock_not_by_the_transactions_start(
        self, connection: Connection
    ) -> None:
        duty.due(connection, ["a"])
        with connection.transaction():
            connection.execute("SELECT now()")
            duty.done(connection, "a", again_in=timedelta(seconds=0.02))
            connection.execute("SELECT pg_sleep(0.05)")

            assert duty.take(connection, "a", early=False)

    def test_is_not_put_off_by_a_clock_that_was_set_back(self, connection: Connection) -> None:
        # It ran while the database's clock was an hour ahead.
        duty.due(connection, ["a"])
        connection.execute(
            "UPDATE pgqueue_duty SET ran_at = clock_timestamp() + interval '1 hour', "
            "due_at = clock_timestamp() + interval '1 hour 1 second'"
        )

        assert duty.due(connection, ["a"])["a"] <= NONE
        assert duty.take(connection, "a", early=False)


class TestTwoTakers:
    @pytest.mark.parametrize("early", [False, True])
    def test_one_of_them_gets_it(
        self, connection: Connection, other: Connection, early: bool
    ) -> None:
        duty.due(connection, ["a"])

        with connection.transaction():
            first = duty.take(connection, "a", early=early)
            second = duty.take(other, "a", early=early)

        assert (first, second) == (True, False)

    def test_the_second_gets_it_where_the_first_died(
        self, connection: Connection, other: Connection, third: Connection
    ) -> None:
        duty.due(connection, ["a"])

        with pytest.raises(Exception, match="terminat|closed"), connection.transaction():
            duty.take(connection, "a", early=False)
            duty.done(connection, "a", again_in=MINUTE)
            third.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
            taken = duty.take(other, "a", early=False)
            connection.execute("SELECT 1")

        assert taken

    def test_the_second_finds_it_done(self, connection: Connection, other: Connection) -> None:
        duty.due(connection, ["a"])

        with connection.transaction():
            duty.take(connection, "a", early=False)
            duty.done(connection, "a", again_in=MINUTE)

        assert not duty.take(other, "a", early=False)

    def test_add_what_is_missing_without_a_deadlock(
        self,
        connection: Connection,
        other: Connection,
        third: Connection,
        step: Callable[..., Step],
    ) -> None:
        # Two versions of a worker may list their duties in different orders.
        with third.transaction(force_rollback=True):
            third.execute("INSERT INTO pgqueue_duty VALUES ('b', clock_timestamp())")
            first = step(duty.due, connection, ["a", "b", "c"])
            first.waits()
            second = step(duty.due, other, ["c", "b", "a"])
            second.waits()

        assert set(first.result()) == set(second.result()) == {"a", "b", "c"}


class Fails:
    """A duty that can't be done: its role may not create tables, for example."""

    name = "fails"

    did: Mapping[str, int] = {}

    def __init__(self) -> None:
        self.tried = 0

    def may_run(self, connected_for: timedelta) -> bool:
        return True

    def run(self, connection: Connection) -> timedelta:
        self.tried += 1
        connection.execute("SELECT 1 / 0")
        return MINUTE


class Notes:
    """A duty that only notes that it was done."""

    def __init__(self, name: str, then: Callable[[], Any] = lambda: None) -> None:
        self.name = name
        self.did: dict[str, int] = {}
        self.done = 0
        self._then = then

    def may_run(self, connected_for: timedelta) -> bool:
        return True

    def run(self, connection: Connection) -> timedelta:
        self.done += 1
        self._then()
        return NONE


class Lasting(Notes):
    """A long duty that waits until it may end."""

    soon = MINUTE

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        super().__init__("lasting", then)
        self.may_end = Event()

    def run(self, connection: Connection) -> timedelta:
        super().run(connection)
        self.may_end.wait(WITHIN)
        return timedelta(hours=1)


class TestWhoFallsSilentBehindATransactionPooler:
    """He is stopped, or cut off: a pooler has no time-out of ours, unless each transaction does."""

    @pytest.fixture
    def pooled(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Connection:
        connection.execute("RESET idle_in_transaction_session_timeout")
        connection.prepare_threshold = None
        monkeypatch.setattr(module_of_connections, "IDLE_IN_TRANSACTION", "200ms")
        duty.due(connection, ["lasting", "short"])
        return connection

    def test_loses_the_duty_to_another(self, pooled: Connection, other: Connection) -> None:
        silent = Notes("short", then=lambda: until_taken(other, "short"))

        with pytest.raises(IdleInTransactionSessionTimeout):
            do(pooled, silent, contact=ALWAYS)

        assert silent.done == 1

    @pytest.mark.parametrize("kind", ["begun", "looked at"])
    def test_loses_a_duty_that_he_only_notes(
        self, pooled: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        verb = "postpone" if kind == "begun" else "done"
        note = getattr(duty, verb)

        def note_late(connection: Connection, name: str, **options: timedelta) -> None:
            until_taken(other, name)
            note(connection, name, **options)

        monkeypatch.setattr(duty, verb, note_late)
        with pytest.raises(IdleInTransactionSessionTimeout):
            if kind == "begun":
                do(pooled, Lasting(), contact=ALWAYS)
            else:
                maintain._note(pooled, Notes("short"))

        assert not Duty.objects.filter(ran_at__isnull=False).exists()

    def test_loses_what_he_rescues_as_a_consumer(
        self, pooled: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run(pooled, lease=OVER)
        rescue = lease.rescue

        def rescue_and_wait(connection: Connection, *, max_lost: int) -> list[lease.Rescued]:
            rescued = rescue(connection, max_lost=max_lost)
            eventually(
                lambda: other.execute(
                    "SELECT id FROM pgqueue_message FOR UPDATE SKIP LOCKED"
                ).fetchone(),
                what="it stays locked",
            )
            return rescued

        monkeypatch.setattr(lease, "rescue", rescue_and_wait)
        with pytest.raises(IdleInTransactionSessionTimeout):
            Upkeep(lease=timedelta(seconds=-1), max_lost=3).look(pooled)

        assert Message.objects.get().state == State.RUNNING


def until_taken(connection: Connection, name: str) -> None:
    """Say nothing until another has the duty."""
    eventually(lambda: duty.take(connection, name, early=True), what="nobody else gets it")


class TestForgetting:
    def test_removes_workers_silent_for_a_day_and_those_who_waited(
        self, connection: Connection
    ) -> None:
        for hours in (25, 23):
            connection.execute(
                "UPDATE pgqueue_worker SET last_seen = last_seen - %s WHERE id = %s",
                [timedelta(hours=hours), register(connection)],
            )
        wait.announce(connection, [1, 2], lasting=OVER)
        wait.announce(connection, [3], lasting=MINUTE)
        forget = Forget()

        again_in = forget.run(connection)

        assert (again_in, forget.did) == (timedelta(hours=1), {"workers": 1, "waiters": 2})
        silent_for = datetime.now(UTC) - Worker.objects.get().last_seen
        assert timedelta(hours=22) < silent_for < timedelta(hours=24)
        assert one(connection, "SELECT message_id FROM pgqueue_waiter") == (3,)


class TestTheService:
    @pytest.fixture
    def session(self) -> Iterator[Session]:
        session = Session("default", name="test")
        yield session
        session.close()

    @pytest.fixture
    def duties(self, session: Session) -> Callable[..., Duties]:
        def duties(*kinds: Kind) -> Duties:
            return Duties(session, [Promote(), *kinds], lease=LEASE, on_done=lambda: None)

        return duties

    def test_says_that_it_did_something_when_others_can_see_it(
        self, connection: Connection, session: Session
    ) -> None:
        seen: list[int] = []

        def look() -> None:
            seen.append(Message.objects.filter(state=State.READY).count())

        service = Duties(session, [Promote()], lease=LEASE, on_done=look)
        make_due(connection, schedule(connection, 3))

        service.tick()
        service.tick()

        assert seen == [3]

    def test_promotes_what_is_due_and_naps_until_the_next(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        make_due(connection, schedule(connection, 3))
        schedule(connection, run_after=timedelta(seconds=0.3))

        nap = duties().tick()

        assert Message.objects.filter(state=State.READY).count() == 3
        assert nap <= timedelta(seconds=0.3)

    def test_looks_again_soon_where_one_batch_was_not_all(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        make_due(connection, schedule(connection, 1500))

        nap = duties().tick()

        assert nap < timedelta(seconds=0.1)

    def test_does_not_spin_where_somebody_locks_what_is_due(
        self, connection: Connection, other: Connection, duties: Callable[..., Duties]
    ) -> None:
        ids = schedule(connection)
        make_due(connection, ids)
        service = duties()

        with other.transaction():
            cancel.cancel(other, ids)
            naps = [service.tick() for _ in range(3)]

        assert max(naps) >= timedelta(seconds=0.1)

    def test_does_not_oversleep_what_comes_while_it_promotes(
        self, connection: Connection, other: Connection, session: Session
    ) -> None:
        # The promoter has looked what is due next, and has not yet written when it looks
        # again: the producer sees the old time, and tells nobody.
        class Interrupted(Promote):
            def run(self, holder: Connection) -> timedelta:
                again_in = super().run(holder)
                schedule(other, run_after=timedelta(seconds=0.1))
                return again_in

        service = Duties(session, [Interrupted()], lease=LEASE, on_done=lambda: None)
        service.tick()
        service.tick()

        duty.due(connection, ["promote"])
        assert service.tick() <= timedelta(seconds=0.1)

    def test_rescues_only_after_it_was_connected_for_a_lease(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        run(connection, 2, lease=OVER)
        patient = duties(Rescue(lease=MINUTE, max_lost=3))
        quick = duties(Rescue(lease=timedelta(seconds=-1), max_lost=3))

        patient.tick()
        before = Message.objects.filter(state=State.RUNNING).count()
        quick.tick()

        assert (before, Message.objects.filter(state=State.RUNNING).count()) == (2, 0)

    def test_rescues_not_if_the_database_was_away_until_just_now(
        self, connection: Connection
    ) -> None:
        run(connection, lease=OVER)
        duty.due(connection, ["rescue"])
        rescue = Rescue(lease=MINUTE, max_lost=3)
        answered = Mock(lasting=Mock(side_effect=[timedelta(), MINUTE]))

        away = do(connection, rescue, contact=answered, early=True)
        back = do(connection, rescue, contact=answered, early=True)

        assert (away, back is None) == (None, False)
        assert Message.objects.get().state == State.READY

    def test_rescues_all_that_a_crash_left_without_a_pause(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        # A few workers hold thousands: at one batch a second they would wait for minutes.
        run(connection, 1200, lease=OVER)
        service = duties(Rescue(lease=timedelta(seconds=-1), max_lost=3))

        naps = [service.tick() for _ in range(3)]

        assert Message.objects.filter(state=State.READY).count() == 1200
        assert max(naps[:2]) < timedelta(seconds=0.2)

    def test_does_the_others_though_one_fails(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        before, fails, after = Notes("before"), Fails(), Notes("after")
        service = duties(before, fails, after)
        make_due(connection, schedule(connection))

        for _ in range(3):
            tick(service)

        assert Message.objects.filter(state=State.READY).count() == 1
        assert (before.done, after.done) == (3, 3)
        assert fails.tried >= 1

    def test_does_the_others_though_it_may_make_no_partitions(
        self, connection: Connection, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A worker's role that may read and write rows, no more: from the day after the last
        # that somebody else made, it can't do what it should.
        run(connection, lease=OVER)
        rescue = Rescue(lease=timedelta(seconds=-1), max_lost=3)
        partitioning = Partitions(retention=settings().retention)
        service = Duties(session, [partitioning, rescue], lease=LEASE, on_done=lambda: None)
        (last,) = one(
            connection,
            "SELECT max(inhrelid::regclass::text) FROM pg_inherits "
            "WHERE inhparent = 'pgqueue_history'::regclass",
        )
        connection.execute(f"DROP TABLE {last}")
        role = f"rows_{uuid4().hex}"
        connection.execute(
            f"CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE "
            f"ON ALL TABLES IN SCHEMA public TO {role}"
        )
        try:
            monkeypatch.setitem(
                connections["default"].settings_dict["OPTIONS"], "assume_role", role
            )

            tick(service)
        finally:
            monkeypatch.undo()
            service.finish()
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
            made = partitions.ensure(connection)

        assert f"pgqueue_history_{made[0]:%Y%m%d}" == last
        assert Message.objects.get().state == State.READY

    def test_leaves_a_server_that_is_read_only_and_does_the_others_elsewhere(
        self, duties: Callable[..., Duties], session: Session
    ) -> None:
        class Refused(Fails):
            def run(self, holder: Connection) -> timedelta:
                holder.execute("SET LOCAL transaction_read_only = on")
                holder.execute("UPDATE pgqueue_duty SET due_at = due_at")
                return MINUTE

        after = Notes("after")
        service = duties(Refused(), after)
        before = session.connection

        for _ in range(2):
            tick(service)

        assert after.done == 1
        assert before.closed

    def test_does_not_try_what_failed_in_a_hot_loop(self, duties: Callable[..., Duties]) -> None:
        fails = Fails()
        service = duties(fails)

        for _ in range(20):
            tick(service)

        assert fails.tried <= 2

    def test_does_a_long_duty_beside_the_others(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        # In the way of nothing: what is delayed must not be late because of it.
        long, short = Lasting(), Notes("short")
        service = duties(long, short)

        tick(service)
        eventually(lambda: long.done, what="the long duty has not begun")
        make_due(connection, schedule(connection))
        tick(service)
        in_the_middle = (long.done, short.done, Message.objects.get().state)
        noted_in_the_middle = Duty.objects.get(name="lasting").ran_at
        long.may_end.set()
        service.finish()

        assert in_the_middle == (1, 2, State.READY)
        assert noted_in_the_middle is None
        assert Duty.objects.get(name="lasting").ran_at is not None

    def test_does_a_long_duty_in_no_transaction(self, duties: Callable[..., Duties]) -> None:
        class Vacuums(Lasting):
            def run(self, connection: Connection) -> timedelta:
                connection.execute("VACUUM pgqueue_duty")
                self.may_end.set()
                return super().run(connection)

        long = Vacuums()
        service = duties(long)

        tick(service)
        service.finish()

        assert long.done == 1

    def test_leaves_a_long_duty_to_who_has_begun_with_it(
        self, duties: Callable[..., Duties]
    ) -> None:
        first, second = Lasting(), Lasting()
        one, two = duties(first), duties(second)

        tick(one)
        eventually(lambda: first.done, what="the long duty has not begun")
        for _ in range(3):
            tick(two)
            two.finish()
        first.may_end.set()
        one.finish()

        assert (first.done, second.done) == (1, 0)

    def test_says_that_a_long_duty_failed_and_leaves_it_for_a_while(
        self, duties: Callable[..., Duties]
    ) -> None:
        long = Lasting(then=lambda: 1 / 0)
        long.soon = timedelta(seconds=1)
        service = duties(long)
        with heard(signals.service_failed, "service") as failures:
            for _ in range(3):
                tick(service)
                service.finish()

        row = Duty.objects.get(name="lasting")
        assert (long.done, failures) == (1, ["duty lasting"])
        assert row.ran_at is None
        assert MINUTE / 2 < row.due_at - datetime.now(UTC) <= MINUTE

    def test_cuts_a_long_duty_whose_time_is_over_and_says_that_it_failed(
        self, duties: Callable[..., Duties], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Hangs(Lasting):
            def run(self, connection: Connection) -> timedelta:
                connection.execute("SET client_connection_check_interval = 100")
                connection.execute("SELECT pg_sleep(60)")
                return super().run(connection)

        monkeypatch.setattr("pgqueue.worker.duties.service.LONGEST_ASIDE", 0.2)
        long = Hangs()
        service = duties(long)

        def has_failed() -> bool:
            tick(service)
            return bool(failures)

        with (
            heard(signals.service_stuck, "service") as stuck,
            heard(signals.service_failed, "service") as failures,
        ):
            eventually(has_failed)
            service.finish()

        assert (stuck, failures, long.done) == (["duty lasting"], ["duty lasting"], 0)

    def test_leaves_a_long_duty_to_others_soon_where_its_holder_dies(
        self, connection: Connection, other: Connection
    ) -> None:
        class Dies(Lasting):
            def run(self, holder: Connection) -> timedelta:
                super().run(holder)
                holder.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                raise AssertionError("it lives")

        dying, heir = Dies(), Lasting()
        for each in (dying, heir):
            each.soon = timedelta(seconds=0.2)
            each.may_end.set()
        duty.due(connection, ["lasting"])

        with pytest.raises(psycopg.OperationalError):
            do(connection, dying, contact=ALWAYS)
        at_once = do(other, heir, contact=ALWAYS)
        eventually(lambda: do(other, heir, contact=ALWAYS), what="nobody goes on")

        assert (at_once, heir.done) == (None, 1)
        assert Partitions.soon <= timedelta(seconds=5)

    def test_leaves_days_soon_again_to_others_where_somebody_drops_some(
        self, connection: Connection, other: Connection
    ) -> None:
        duty.due(connection, ["partitions"])
        other.execute(partitions.SQL["try_for_session"])

        again_in = do(connection, Partitions(retention=settings().retention), contact=ALWAYS)

        row = Duty.objects.get(name="partitions")
        assert (again_in, row.ran_at) == (None, None)
        assert NONE < row.due_at - datetime.now(UTC) <= Partitions.soon

    def test_drops_days_again_at_once_while_there_are_any(self, connection: Connection) -> None:
        duty.due(connection, ["partitions"])
        past(connection, 90)
        partitioning = Partitions(retention=settings().retention)

        after_some = do(connection, partitioning, contact=ALWAYS)
        dropped = partitioning.did["dropped"]
        after_none = do(connection, partitioning, contact=ALWAYS)

        assert (after_some, dropped) == (NONE, 1)
        assert (after_none, partitioning.did["dropped"]) == (timedelta(hours=1), 0)

    def test_undoes_a_duty_that_fails(
        self, connection: Connection, duties: Callable[..., Duties]
    ) -> None:
        class Half(Fails):
            def run(self, holder: Connection) -> timedelta:
                holder.execute("UPDATE pgqueue_message SET task = 'half'")
                return super().run(holder)

        run(connection)

        tick(duties(Half()))

        assert Message.objects.get().task == "tests.task"

    def test_comes_back_on_a_new_connection(
        self, connection: Connection, duties: Callable[..., Duties], session: Session
    ) -> None:
        service = duties()
        service.tick()
        connection.execute(
            "SELECT pg_terminate_backend(%s, 10000)", [session.connection.info.backend_pid]
        )
        make_due(connection, schedule(connection))
        connection.execute("UPDATE pgqueue_duty SET due_at = clock_timestamp()")

        tick(service)
        tick(service)

        assert Message.objects.get().state == State.READY


def tick(service: Duties) -> None:
    """Tick as its thread does, which survives a failure; but without the pause after one."""
    service._try_tick()
