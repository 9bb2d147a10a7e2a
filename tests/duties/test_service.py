"""The service of a worker that does duties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connections

from pgqueue import signals
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.duties.base import Duty as Kind
from pgqueue.duties.partitions import Partitions
from pgqueue.duties.promote import Promote
from pgqueue.duties.rescue import Rescue
from pgqueue.duties.service import Duties
from pgqueue.engine import cancel, duty, partitions
from pgqueue.models import Duty, Message
from pgqueue.states import State
from tests.duties.kinds import MINUTE, Fails, Lacks, Lasting, Notes
from tests.eventually import eventually
from tests.factories import LEASE, OVER, Connection, make_due, run, schedule
from tests.hearing import heard


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

    def test_says_once_that_a_duty_lacks_a_table_and_again_after_it_was_there(
        self, duties: Callable[..., Duties], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.duties.service.SHORTEST_REST", 0)
        lacking = Lacks()
        service = duties(lacking)

        with (
            heard(signals.tables_missing, "missing") as missing,
            heard(signals.service_failed, "error") as failed,
        ):
            for is_there in (False, False, False, True, False, False):
                lacking.is_there = is_there
                service._try_tick()

        assert missing == ['relation "pgqueue_nothing" does not exist'] * 2
        assert failed == []
        assert lacking.tried == 6

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

    def test_does_not_spin_where_another_session_locks_what_is_due(
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
        # again: the producer sees the old time, and tells no worker.
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
        # that another role made, it can't do what it should.
        partitions.ensure(connection)
        run(connection, lease=OVER)
        rescue = Rescue(lease=timedelta(seconds=-1), max_lost=3)
        partitioning = Partitions(retention=settings().retention)
        service = Duties(session, [partitioning, rescue], lease=LEASE, on_done=lambda: None)
        last = (datetime.now(UTC) + partitions.AHEAD).date()
        connection.execute(f"DROP TABLE pgqueue_history_{last:%Y%m%d}")
        role = f"rows_{uuid4().hex}"
        connection.execute(
            f"CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE "
            f"ON ALL TABLES IN SCHEMA public TO {role}"
        )
        try:
            monkeypatch.setitem(
                connections["default"].settings_dict["OPTIONS"], "assume_role", role
            )

            with heard(signals.service_failed, "service") as failed:
                tick(service)
                # The duty has a thread of its own, which may be slow to connect with the role.
                eventually(lambda: failed)
        finally:
            monkeypatch.undo()
            service.finish()
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
            made = partitions.ensure(connection)

        assert failed == ["duty partitions"]
        assert made == [last]
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

        monkeypatch.setattr("pgqueue.duties.service.LONGEST_ASIDE", 0.2)
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
