"""One duty, run once: under the lock of its row, or, if it is long, beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import psycopg
import pytest
from psycopg.errors import IdleInTransactionSessionTimeout, LockNotAvailable

from pgqueue.conf import settings
from pgqueue.database import transactions
from pgqueue.duties import maintain
from pgqueue.duties.inline import InlineDuties
from pgqueue.duties.partitions import Partitions
from pgqueue.duties.rescue import Rescue
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty, event_partitions, lease, partitioning, partitions
from pgqueue.models import Duty, Message
from pgqueue.states import State
from tests.duties.kinds import MINUTE, NONE, Lasting, Notes
from tests.eventually import eventually
from tests.factories import LEASE, OVER, Connection, log_as_migrated, logged, past, run

ALWAYS = Mock(lasting=lambda connection: MINUTE)


class TestWhoFallsSilentBehindATransactionPooler:
    """He is stopped, or cut off: a pooler has no time-out of ours, unless each transaction does."""

    @pytest.fixture
    def pooled(self, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Connection:
        connection.execute("RESET idle_in_transaction_session_timeout")
        connection.prepare_threshold = None
        monkeypatch.setattr(transactions, "IDLE_IN_TRANSACTION", "200ms")
        duty.due(connection, ["lasting", "short"])
        return connection

    def test_loses_the_duty_to_another(self, pooled: Connection, other: Connection) -> None:
        silent = Notes("short", then=lambda: until_taken(other, "short"))

        with pytest.raises(IdleInTransactionSessionTimeout):
            run_duty(pooled, silent, contact=ALWAYS)

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
                run_duty(pooled, Lasting(), contact=ALWAYS)
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
            rescuing = Rescue(lease=timedelta(seconds=-1), max_lost=3)
            InlineDuties([rescuing], lease=LEASE).look(pooled)

        assert Message.objects.get().state == State.RUNNING


def until_taken(connection: Connection, name: str) -> None:
    """Say nothing until another has the duty."""
    eventually(lambda: duty.take(connection, name, early=True), what="no other worker gets it")


class TestRunning:
    def test_rescues_not_if_the_database_was_away_until_just_now(
        self, connection: Connection
    ) -> None:
        run(connection, lease=OVER)
        duty.due(connection, ["rescue"])
        rescue = Rescue(lease=MINUTE, max_lost=3)
        answered = Mock(lasting=Mock(side_effect=[timedelta(), MINUTE]))

        away = run_duty(connection, rescue, contact=answered, early=True)
        back = run_duty(connection, rescue, contact=answered, early=True)

        assert (away, back is None) == (None, False)
        assert Message.objects.get().state == State.READY

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
            run_duty(connection, dying, contact=ALWAYS)
        at_once = run_duty(other, heir, contact=ALWAYS)
        eventually(lambda: run_duty(other, heir, contact=ALWAYS), what="the next does not go on")

        assert (at_once, heir.done) == (None, 1)
        assert Partitions.soon <= timedelta(seconds=5)

    def test_leaves_days_soon_again_to_others_where_another_session_drops_some(
        self, connection: Connection, other: Connection
    ) -> None:
        duty.due(connection, ["partitions"])
        other.execute(partitioning.SQL["try_for_session"], {"table": partitions.TABLE})

        again_in = run_duty(connection, Partitions(retention=settings().retention), contact=ALWAYS)

        row = Duty.objects.get(name="partitions")
        assert (again_in, row.ran_at) == (None, None)
        assert NONE < row.due_at - datetime.now(UTC) <= Partitions.soon

    def test_drops_days_again_at_once_while_there_are_any(self, connection: Connection) -> None:
        duty.due(connection, ["partitions"])
        past(connection, 90)
        partitioning = Partitions(retention=settings().retention)

        after_some = run_duty(connection, partitioning, contact=ALWAYS)
        dropped = partitioning.did["dropped"]
        after_none = run_duty(connection, partitioning, contact=ALWAYS)

        assert (after_some, dropped) == (NONE, 1)
        assert (after_none, partitioning.did["dropped"]) == (timedelta(hours=1), 0)

    def test_does_not_count_as_failing_while_another_session_reads_history(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        duty.due(connection, ["partitions"])
        past(connection, 90)
        monkeypatch.setattr(partitioning, "PATIENCE", "10ms")
        own = Partitions(retention=settings().retention)

        with other.transaction():
            other.execute("SELECT FROM pgqueue_history")
            with pytest.raises(LockNotAvailable):
                run_duty(connection, own, contact=ALWAYS)
            row = Duty.objects.get(name="partitions")
        after_it = run_duty(connection, own, contact=ALWAYS, early=True)

        assert (row.ran_at, row.failing_since) == (None, None)
        assert NONE < row.due_at - datetime.now(UTC) <= timedelta(minutes=1)
        assert (after_it, own.did["dropped"]) == (NONE, 1)

    def test_makes_partitions_again_soon_while_events_come_fast(
        self, connection: Connection
    ) -> None:
        duty.due(connection, ["partitions"])
        logged(connection, 1)
        logged(connection, event_partitions.SIZE // 2)
        partitioning = Partitions(retention=settings().retention)
        try:
            again_in = run_duty(connection, partitioning, contact=ALWAYS)
        finally:
            log_as_migrated(connection)

        assert again_in == timedelta(seconds=10)
        assert partitioning.did["event_partitions_made"] == event_partitions.MOST_AHEAD - 1
