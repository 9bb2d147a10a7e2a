"""Duties that a consumer does between two claims, where there may be no worker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.duties.agenda import NAP_BESIDE_A_LOCK
from pgqueue.duties.base import Duty as Kind
from pgqueue.duties.inline import InlineDuties
from pgqueue.duties.promote import Promote
from pgqueue.duties.rescue import Rescue
from pgqueue.engine import duty
from pgqueue.models import Duty, Message
from pgqueue.states import State
from tests.duties.kinds import MINUTE, Notes
from tests.factories import LEASE, OVER, Connection, make_due, run, schedule


class EveryMinute(Notes):
    """A duty that is due again in a minute."""

    def run(self, connection: Connection) -> timedelta:
        super().run(connection)
        return MINUTE


def inline(*duties: Kind) -> InlineDuties:
    return InlineDuties(duties, lease=LEASE)


class TestLooking:
    def test_does_what_is_due_and_notes_it_in_its_row(self, connection: Connection) -> None:
        often = EveryMinute("often")

        inline(often).look(connection)

        assert often.done == 1
        assert Duty.objects.get(name="often").ran_at is not None

    def test_leaves_out_what_another_process_has_just_done(
        self, connection: Connection, other: Connection
    ) -> None:
        consumers = [EveryMinute("often") for _ in range(5)]

        for each in consumers:
            inline(each).look(connection)
            inline(each).look(other)

        assert sum(each.done for each in consumers) == 1

    def test_waits_for_no_process_that_is_at_it(
        self, connection: Connection, other: Connection
    ) -> None:
        often = EveryMinute("often")
        duty.due(connection, ["often"])

        with other.transaction():
            assert duty.take(other, "often", early=False)
            inline(often).look(connection)  # or it fails after lock_timeout

        assert often.done == 0

    def test_promotes_what_is_due_though_the_row_says_later(self, connection: Connection) -> None:
        duty.due(connection, ["promote"])
        duty.done(connection, "promote", again_in=MINUTE)
        make_due(connection, schedule(connection, 2))

        inline(Promote()).look(connection)

        assert Message.objects.filter(state=State.READY).count() == 2

    def test_comes_again_when_the_next_message_is_due(self, connection: Connection) -> None:
        schedule(connection, run_after=timedelta(seconds=0.3))
        duties = inline(Promote())

        duties.look(connection)

        assert 0 < duties.due_in <= 0.3

    def test_comes_again_soon_where_another_process_promotes(
        self, connection: Connection, other: Connection
    ) -> None:
        make_due(connection, schedule(connection))
        duty.due(connection, ["promote"])
        duties = inline(Promote())

        with other.transaction():
            duty.take(other, "promote", early=True)
            duties.look(connection)
            due_in = duties.due_in

        # Not at once, either: many consumers would then ask all the time.
        assert NAP_BESIDE_A_LOCK.total_seconds() / 2 < due_in <= NAP_BESIDE_A_LOCK.total_seconds()

    def test_asks_nothing_until_something_may_be_due(self, connection: Connection) -> None:
        often = EveryMinute("often")
        duties = inline(often)
        duties.look(connection)

        connection.close()
        duties.look(connection)  # or it fails on the closed connection

        assert often.done == 1

    def test_rescues_only_after_the_database_has_answered_for_a_lease(
        self, connection: Connection
    ) -> None:
        run(connection, lease=OVER)

        inline(Rescue(lease=MINUTE, max_lost=3)).look(connection)
        before = Message.objects.get().state
        inline(Rescue(lease=timedelta(seconds=-1), max_lost=3)).look(connection)

        assert (before, Message.objects.get().state) == (State.RUNNING, State.READY)

    def test_passes_on_why_a_duty_failed_and_tries_again_at_the_next_look(
        self, connection: Connection
    ) -> None:
        fails = EveryMinute("fails", then=lambda: 1 / 0)
        duties = inline(fails)

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                duties.look(connection)

        assert fails.done == 2
