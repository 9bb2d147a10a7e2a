"""What goes before its day does: deleted in stretches of time, each of which is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

from pgqueue.duties.retention import Retention as Moving
from pgqueue.duties.run import run_duty
from pgqueue.engine import (
    dead,
    duty,
    event_partitions,
    event_retention,
    expire,
    flows,
    partitions,
    retention,
    run_statistics,
)
from pgqueue.models import Channel, History, LogFloor, Message, Purged
from pgqueue.options.retention import Retention
from pgqueue.states import Outcome
from tests.factories import (
    Connection,
    Listening,
    bury,
    claim,
    count_by,
    ended,
    log_as_migrated,
    logged,
    one,
    past,
    register,
)

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ANY = Mock(lasting=lambda connection: DAY)
MONTH: Retention = dict.fromkeys(Outcome.values, 30 * DAY)
BRIEF: Retention = {**MONTH, "succeeded": HOUR}


def purge(connection: Connection, kept: Retention = BRIEF) -> int:
    """Purge until nothing is left to do now; return how many messages were removed."""
    removed = 0
    while True:
        steps = [
            retention.purge(connection, window, kept)
            for window in retention.windows(connection, kept)
        ]
        removed += sum(step.removed for step in steps)
        if all(step.is_last for step in steps):
            return removed


def left() -> dict[str, int]:
    """Return how many messages are left of each channel and outcome."""
    return count_by(History.objects.all(), lambda each: f"{each.channel} {each.outcome}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps so small that a few messages take several."""
    monkeypatch.setattr(retention, "BATCH", 4)
    monkeypatch.setattr(retention, "REACH", 6)


class TestHistory:
    def test_is_kept_for_as_long_as_its_outcome_says(self, connection: Connection) -> None:
        for outcome in Outcome.values:
            ended(connection, ago=1.1 * HOUR, outcome=outcome)
            ended(connection, ago=0.9 * HOUR, outcome=outcome)

        removed = purge(connection)

        assert removed == 1
        assert left() == {
            "default succeeded": 1,
            "default cancelled": 2,
            "default discarded": 2,
            "default expired": 2,
        }

    def test_is_kept_for_as_long_as_its_channel_says(self, connection: Connection) -> None:
        Channel.objects.create(name="brief", retention=HOUR)
        Channel.objects.create(name="long", retention=30 * DAY)
        Channel.objects.create(name="mixed", retention=3 * HOUR, retention_succeeded=HOUR)
        Channel.objects.create(name="silent")
        for channel in ("brief", "long", "mixed", "silent", "none"):
            for outcome in ("succeeded", "discarded"):
                ended(connection, ago=2 * HOUR, channel=channel, outcome=outcome)

        purge(connection, dict.fromkeys(Outcome.values, 1.5 * HOUR) | {"succeeded": 3 * HOUR})

        assert left() == {
            "long succeeded": 1,
            "long discarded": 1,
            "mixed discarded": 1,
            "silent succeeded": 1,
            "none succeeded": 1,
        }

    def test_says_up_to_which_transaction_it_is_gone(self, connection: Connection) -> None:
        ended(connection, ago=2 * HOUR, outcome="expired")
        ended(connection, ago=2 * HOUR)
        [last] = one(connection, "SELECT max(txid) FROM pgqueue_history")
        ended(connection, ago=2 * HOUR, outcome="expired")

        purge(connection)

        assert [*LogFloor.objects.values_list("log", "position")] == [("history", last)]

    def test_of_what_is_kept_the_longest_goes_with_its_days(self, connection: Connection) -> None:
        ended(connection, 3, at=yesterday())

        assert retention.windows(connection, dict.fromkeys(Outcome.values, DAY)) == []
        assert purge(connection, dict.fromkeys(Outcome.values, DAY)) == 0

    def test_of_what_is_kept_for_hours_does_not_wait_for_the_day(
        self, connection: Connection
    ) -> None:
        ended(connection, 3, at=yesterday())
        ended(connection, 1)

        assert purge(connection, dict.fromkeys(Outcome.values, HOUR)) == 3

    def test_goes_step_by_step(self, connection: Connection, small: None) -> None:
        for minutes in range(10):
            ended(connection, 2, ago=2 * HOUR + timedelta(minutes=minutes))
        ended(connection, 9, ago=2 * HOUR, outcome="expired")

        steps = []
        for _ in range(12):
            (window,) = retention.windows(connection, BRIEF)
            steps.append(retention.purge(connection, window, BRIEF))

        assert all(step.removed <= 4 for step in steps)
        assert sum(step.removed for step in steps) == 20
        assert steps[-1].is_last
        assert left() == {"default expired": 9}

    def test_of_one_moment_is_not_gone_through_for_ever(
        self, connection: Connection, small: None
    ) -> None:
        # Whatever ended in the same microsecond, more than a step reaches.
        ended(connection, 30, at=yesterday(), outcome="expired")
        ended(connection, 5, at=yesterday())

        assert purge(connection) == 5

    def test_is_read_once(self, connection: Connection) -> None:
        ended(connection, ago=2 * HOUR)
        purge(connection)

        (window,) = retention.windows(connection, BRIEF)

        assert window.before - window.after < timedelta(minutes=1)

    @pytest.mark.parametrize(
        "change",
        [
            lambda: {**BRIEF, "expired": 2 * HOUR},
            lambda: Channel.objects.create(name="mail", retention_expired=HOUR) and BRIEF,
            lambda: Channel.objects.filter(name="old").delete() and BRIEF,
        ],
    )
    def test_is_read_once_more_where_the_rules_have_changed(
        self, connection: Connection, change: Callable[[], Retention]
    ) -> None:
        Channel.objects.create(name="old", retention=2 * DAY)
        purge(connection)
        before = set(Purged.objects.values_list("rules", flat=True))

        windows = retention.windows(connection, kept := change())
        purge(connection, kept)

        assert {window.after.year for window in windows} == {1970}
        assert not before & set(Purged.objects.values_list("rules", flat=True))

    def test_is_kept_by_new_rules_however_they_change(self, connection: Connection) -> None:
        ended(connection, ago=20 * HOUR, channel="mail")
        mail = Channel.objects.create(name="mail", retention=2 * DAY)

        long = purge(connection)
        Channel.objects.filter(pk=mail.pk).update(retention=10 * HOUR)
        short = purge(connection)
        ended(connection, ago=20 * HOUR, channel="mail")
        Channel.objects.filter(pk=mail.pk).update(retention=2 * DAY)
        long_again = purge(connection)

        assert (long, short, long_again) == (0, 1, 0)

    def test_is_read_once_more_where_the_clock_was_set_back(self, connection: Connection) -> None:
        purge(connection)
        # It was a day ahead when this was noted.
        connection.execute("UPDATE pgqueue_purged SET until = until + interval '1 day'")
        ended(connection, ago=2 * HOUR)

        assert purge(connection) == 1

    def test_that_another_session_has_locked_is_passed_over(
        self, connection: Connection, other: Connection
    ) -> None:
        ended(connection, 3, ago=2 * HOUR)
        connection.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            other.execute("SELECT FROM pgqueue_history LIMIT 1 FOR UPDATE")
            removed = purge(connection)

        assert removed == 2

    def test_is_noted_only_as_far_as_it_was_done(self, connection: Connection, small: None) -> None:
        ended(connection, 5, ago=2 * HOUR)
        (window,) = retention.windows(connection, BRIEF)

        with connection.transaction(force_rollback=True):
            while not retention.purge(connection, window, BRIEF).is_last:
                (window,) = retention.windows(connection, BRIEF)

        assert not Purged.objects.exists()
        assert purge(connection) == 5


class TestADeadLetter:
    def test_ends_as_discarded_after_its_time(self, connection: Connection) -> None:
        young, old = bury(connection, 2)
        age(connection, old, 3 * HOUR)

        assert dead.discard_old(connection, keep=2 * HOUR) == 1

        assert Message.objects.get().pk == young
        assert (History.objects.get().pk, History.objects.get().outcome) == (old, "discarded")

    def test_has_the_time_of_its_channel(self, connection: Connection) -> None:
        Channel.objects.create(name="brief", dead_retention=HOUR)
        Channel.objects.create(name="long", dead_retention=9 * HOUR)
        for channel in ("brief", "long", "other"):
            for hours in (2, 4):
                age(connection, *bury(connection, channel=channel), hours * HOUR)

        dead.discard_old(connection, keep=3 * HOUR)

        assert count_by(Message.objects.all(), lambda each: each.channel) == {"long": 2, "other": 1}

    def test_has_it_from_when_it_died(self, connection: Connection) -> None:
        # Its last run took hours.
        (id,) = bury(connection)
        connection.execute(
            "UPDATE pgqueue_message SET claimed_at = statement_timestamp() - interval '5 hours'"
        )

        assert dead.discard_old(connection, keep=HOUR) == 0
        age(connection, id, 2 * HOUR)
        assert dead.discard_old(connection, keep=HOUR) == 1

    def test_goes_in_batches_the_oldest_first(self, connection: Connection) -> None:
        ids = bury(connection, 5)
        for n, id in enumerate(ids):
            age(connection, id, (10 - n) * HOUR)

        assert dead.discard_old(connection, keep=HOUR, limit=2) == 2

        assert sorted(History.objects.values_list("pk", flat=True)) == ids[:2]

    def test_that_is_replayed_is_none(self, connection: Connection) -> None:
        age(connection, *bury(connection), 9 * HOUR)
        dead.replay(connection, list(Message.objects.values_list("pk", flat=True)))

        assert dead.discard_old(connection, keep=HOUR) == 0
        claim(connection)
        assert dead.discard_old(connection, keep=HOUR) == 0

    def test_that_another_session_has_locked_is_passed_over(
        self, connection: Connection, other: Connection
    ) -> None:
        for id in bury(connection, 3):
            age(connection, id, 9 * HOUR)
        connection.execute("SET lock_timeout = '1ms'")

        with other.transaction():
            other.execute("SELECT FROM pgqueue_message ORDER BY id LIMIT 1 FOR UPDATE")

            assert dead.discard_old(connection, keep=HOUR) == 2

    def test_no_longer_blocks_its_lane_and_who_is_idle_is_told(
        self, connection: Connection, other: Connection
    ) -> None:
        age(connection, *bury(connection), 9 * HOUR)
        connection.execute("UPDATE pgqueue_message SET ordered = true, governed = true, key = 'a'")
        register(connection, notify_for=HOUR)
        listening = Listening(other)

        dead.discard_old(connection, keep=HOUR)

        assert listening.heard() == ["default"]
        assert one(connection, "SELECT channel, key FROM pgqueue_bell") == ("default", "a")


def age(connection: Connection, id: int, by: timedelta) -> None:
    """Let a dead letter have died so long ago."""
    connection.execute(
        "UPDATE pgqueue_message SET claimed_at = statement_timestamp() - %(by)s, errors = "
        "jsonb_build_array(jsonb_build_object('at', statement_timestamp() - %(by)s)) "
        "WHERE id = %(id)s",
        {"by": by, "id": id},
    )


def yesterday() -> datetime:
    """Return a moment that is in another day, in a partition that is always there."""
    return datetime.now(UTC).replace(hour=12) - DAY


@pytest.fixture
def jumped(connection: Connection) -> Iterator[Connection]:
    """The server's clock has jumped by 40 days since retention was last moved."""
    duty.due(connection, ["retention"])
    retention.advance(connection)
    connection.execute("UPDATE pgqueue_duty SET upto = upto - interval '40 days'")
    yield connection
    for (name,) in connection.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits "
        "WHERE inhparent = 'pgqueue_history'::regclass "
        "AND to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') < current_date - 1"
    ).fetchall():
        connection.execute(f"DROP TABLE {name}")


def days_behind(connection: Connection) -> int:
    """Return by how many days retention goes behind the clock."""
    [behind] = one(
        connection,
        "SELECT statement_timestamp() - upto FROM pgqueue_duty WHERE name = 'retention'",
    )
    return round(behind / DAY)


def hourly(connection: Connection) -> None:
    """Do the duty an hour after it was done last."""
    connection.execute("UPDATE pgqueue_duty SET ran_at = ran_at - interval '1 hour'")
    run_duty(connection, Moving(), contact=ANY, early=True)


class TestAClockThatHasJumped:
    def test_moves_retention_by_a_day_an_hour(
        self, jumped: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        hourly(jumped)
        assert days_behind(jumped) == 39
        for _ in range(3):  # not more often, whoever asks for it
            run_duty(jumped, Moving(), contact=ANY, early=True)
            assert days_behind(jumped) == 39

        hourly(jumped)

        assert days_behind(jumped) == 38
        assert "If the server's clock is wrong, set it right" in caplog.text
        for _ in range(40):
            hourly(jumped)
        assert days_behind(jumped) == 0

    def test_moves_retention_as_fast_by_a_command_that_runs_each_minute(
        self, jumped: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        hourly(jumped)
        caplog.clear()

        for _ in range(50):
            jumped.execute("UPDATE pgqueue_duty SET ran_at = ran_at - interval '1 minute'")
            run_duty(jumped, Moving(), contact=ANY, early=True)

        assert days_behind(jumped) == 38
        assert caplog.text.count("set it right") == 1

    def test_drops_no_more_history_than_of_a_day(self, jumped: Connection) -> None:
        names = [past(jumped, ago) for ago in (72, 70, 60, 32)]

        dropped = partitions.drop(jumped, MONTH)

        # As of 39 days ago, these are older than 30 days.
        assert dropped == [datetime.strptime(name[-8:], "%Y%m%d").date() for name in names[:2]]
        jumped.execute("UPDATE pgqueue_duty SET upto = NULL")
        assert len(partitions.drop(jumped, MONTH) or []) == 2

    def test_removes_nothing_else_by_it(self, jumped: Connection) -> None:
        ended(jumped, ago=2 * HOUR)
        (dead_one,) = bury(jumped)
        jumped.execute(
            "UPDATE pgqueue_message SET claimed_at = claimed_at - interval '40 days', errors = '[]'"
        )
        jumped.execute(
            "INSERT INTO pgqueue_flow (name, created_at, ended_at) "
            "SELECT '', at, at FROM (VALUES (now() - interval '39 days')) t (at)"
        )
        jumped.execute(
            "INSERT INTO pgqueue_dedupe (channel, dedupe_key, message_id, expires_at) "
            "VALUES ('', 'a', 1, now() - interval '38 days')"
        )
        jumped.execute(
            "INSERT INTO pgqueue_tally_batch (source, number, at) "
            "VALUES (gen_random_uuid(), 1, now() - interval '38 days')"
        )

        def removed() -> list[int]:
            return [
                purge(jumped),
                dead.discard_old(jumped, keep=30 * DAY),
                flows.forget(jumped, keep=30 * DAY),
                expire.forget(jumped),
                run_statistics.forget(jumped),
            ]

        assert removed() == [0, 0, 0, 0, 0]
        assert Message.objects.get().pk == dead_one
        jumped.execute("UPDATE pgqueue_duty SET upto = NULL")
        assert all(removed())

    def test_drops_no_more_events(self, jumped: Connection) -> None:
        last = event_partitions.SIZE - 1
        logged(jumped, 1, ago=40 * DAY)
        logged(jumped, last, ago=39 * DAY)
        logged(jumped, last + 1)
        try:
            assert event_retention.drop(jumped, keep=30 * DAY) == 0
            jumped.execute("UPDATE pgqueue_duty SET upto = NULL")
            assert event_retention.drop(jumped, keep=30 * DAY) == 1
        finally:
            log_as_migrated(jumped)

    def test_is_none_where_each_day_was_seen(self, jumped: Connection) -> None:
        """No worker ran for weeks, but consumers did: history has rows of each day."""
        for ago in range(20, 41):
            past(jumped, ago)  # at noon

        hourly(jumped)

        assert days_behind(jumped) == (19 if datetime.now(UTC).hour < 12 else 20)

    def test_is_none_where_the_log_has_events_of_each_day(self, jumped: Connection) -> None:
        for ago in range(20, 41):
            logged(jumped, 41 - ago, ago=ago * DAY - HOUR)
        try:
            hourly(jumped)

            assert days_behind(jumped) == 19
        finally:
            log_as_migrated(jumped)

    def test_and_back_again_changes_nothing(self, jumped: Connection) -> None:
        jumped.execute(
            "UPDATE pgqueue_duty SET upto = now() + interval '40 days', "
            "ran_at = now() + interval '40 days'"
        )

        hourly(jumped)

        assert days_behind(jumped) == 0
