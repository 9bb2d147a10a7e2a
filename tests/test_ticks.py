"""When schedules tick, as tables of what is expected; without a database."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgqueue.exceptions import InvalidSchedule
from pgqueue.options.ticks import (
    ALIASES,
    EPOCH,
    MOST,
    Cron,
    Every,
    to_do,
    upcoming,
)

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def local(cron: Cron, start: str, count: int) -> list[str]:
    """Return the ticks after a local time, as the clocks there show them."""
    zone = ZoneInfo(cron.timezone)
    after = datetime.fromisoformat(start).replace(tzinfo=zone).astimezone(UTC)
    return [f"{tick.astimezone(zone):%d %H:%M %z}" for tick in upcoming(cron, after, count)]


class TestACronLine:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("*/5 * * * *", ["01 12:05", "01 12:10", "01 12:15"]),
            ("0 3 * * *", ["02 03:00", "03 03:00", "04 03:00"]),
            ("30 9 * * MON-FRI", ["02 09:30", "03 09:30", "04 09:30"]),
            ("0 0 L * *", ["30 00:00", "31 00:00", "31 00:00"]),
            ("0 0 LW * *", ["30 00:00", "31 00:00", "31 00:00"]),
            ("0 0 * * 5L", ["26 00:00", "31 00:00", "28 00:00"]),
            ("0 0 * * 1#2", ["08 00:00", "13 00:00", "10 00:00"]),
            ("@hourly", ["01 13:00", "01 14:00", "01 15:00"]),
            ("@Daily", ["02 00:00", "03 00:00", "04 00:00"]),
        ],
    )
    def test_names_its_times(self, line: str, expected: list[str]) -> None:
        ticks = upcoming(Cron(line, "UTC"), NOON, 3)

        assert [f"{tick:%d %H:%M}" for tick in ticks] == expected

    def test_is_meant_in_its_time_zone_and_told_in_utc(self) -> None:
        tick = Cron("0 3 * * *", BERLIN).after(NOON)

        assert (tick, tick.tzinfo) == (datetime(2026, 6, 2, 1, tzinfo=UTC), UTC)

    @pytest.mark.parametrize("alias", ALIASES)
    def test_may_be_an_alias(self, alias: str) -> None:
        assert Cron(alias, "UTC").after(NOON) > NOON

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("", "takes minute, hour"),
            ("* * * *", "takes minute, hour"),
            ("0 * * * * *", "takes minute, hour"),  # it would be taken for seconds, and come first
            ("@reboot", "or one of @yearly"),
            ("60 * * * *", "Bad minute"),
            ("* * 1-L * *", "Bad day-of-month"),
            ("9" * 5000 + " * * * *", "no cron line"),
            ("0 0 31 2 *", "Bad day-of-month"),
            ("0 0 30 2 MON#6", "Bad day-of-week"),
        ],
    )
    def test_that_can_not_be_is_refused(self, line: str, said: str) -> None:
        with pytest.raises(InvalidSchedule, match=said):
            Cron(line, "UTC")

    @pytest.mark.parametrize("zone", ["", "Mars", "../etc/passwd", "Europe", "a\x00b"])
    def test_of_no_time_zone_is_refused(self, zone: str) -> None:
        with pytest.raises(InvalidSchedule, match="no time zone"):
            Cron("* * * * *", zone)

    @given(st.text("0123456789*/-,#L W", max_size=20))
    def test_is_one_or_refused_whatever_is_written(self, line: str) -> None:
        with suppress(InvalidSchedule):
            assert Cron(line, "UTC").after(NOON) > NOON

    def test_is_said_in_words(self) -> None:
        assert Cron("30 9 * * 1-5", BERLIN).in_words() == (
            "At 09:30 on Monday through Friday (Europe/Berlin)"
        )


class TestWhereTheClockChanges:
    """Berlin: on 2026-03-29 02:00 is 03:00, on 2026-10-25 03:00 is 02:00; and elsewhere."""

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            # In the gap: at the first moment after it, once.
            ("30 2 * * *", ["29 03:00 +0200", "30 02:30 +0200"]),
            ("0,30 2 * * *", ["29 03:00 +0200", "30 02:00 +0200"]),
            ("0 2,3 * * *", ["29 03:00 +0200", "30 02:00 +0200"]),
            ("30 3 * * *", ["29 03:30 +0200", "30 03:30 +0200"]),
            # All day: by real time.
            (
                "*/30 * * * *",
                ["29 00:30 +0100", "29 01:00 +0100", "29 01:30 +0100", "29 03:00 +0200"],
            ),
            ("0 */2 * * *", ["29 04:00 +0200", "29 06:00 +0200"]),
        ],
    )
    def test_in_spring(self, line: str, expected: list[str]) -> None:
        assert local(Cron(line, BERLIN), "2026-03-29 00:00", len(expected)) == expected

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            # In the hour that comes twice: the first time only.
            ("30 2 * * *", ["25 02:30 +0200", "26 02:30 +0100"]),
            ("0 2,3 * * *", ["25 02:00 +0200", "25 03:00 +0100", "26 02:00 +0100"]),
            # All day: by real time.
            ("0 * * * *", ["25 02:00 +0200", "25 02:00 +0100", "25 03:00 +0100"]),
        ],
    )
    def test_in_autumn(self, line: str, expected: list[str]) -> None:
        assert local(Cron(line, BERLIN), "2026-10-25 01:59", len(expected)) == expected

    @pytest.mark.parametrize(
        ("zone", "line", "start", "expected"),
        [
            (NEW_YORK, "30 2 * * *", "2026-03-07 12:00", ["08 03:00 -0400", "09 02:30 -0400"]),
            (NEW_YORK, "30 1 * * *", "2026-10-31 12:00", ["01 01:30 -0400", "02 01:30 -0500"]),
            # Half an hour, and at midnight.
            ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00", ["04 02:30 +1100"]),
            ("America/Sao_Paulo", "0 0 * * *", "2018-11-03 12:00", ["04 01:00 -0200"]),
            ("America/Sao_Paulo", "* * 4 11 *", "2018-11-03 12:00", ["04 01:00 -0200"]),
        ],
    )
    def test_elsewhere(self, zone: str, line: str, start: str, expected: list[str]) -> None:
        assert local(Cron(line, zone), start, len(expected)) == expected

    def test_a_question_in_the_second_hour_gets_no_tick_of_the_first(self) -> None:
        daily = Cron("30 2 * * *", BERLIN)
        second_quarter_past_two = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)

        assert daily.after(second_quarter_past_two) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)

    @given(
        st.sampled_from(
            ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "0 */2 * * *", "5 2 * * *"]
        ),
        st.sampled_from([BERLIN, NEW_YORK, "Australia/Lord_Howe", "Africa/Cairo"]),
        st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)),
        st.integers(0, 6 * 3600),
    )
    def test_the_ticks_are_the_same_whenever_they_are_asked_for(
        self, line: str, zone: str, start: datetime, later: int
    ) -> None:
        # Half an hour; see Cron.
        assume(zone != "Australia/Lord_Howe" or "*" not in line.partition(" * ")[0])
        cron = Cron(line, zone)
        instant = start.replace(tzinfo=UTC)
        ticks = upcoming(cron, instant, 60)

        asked = instant + timedelta(seconds=later)

        assert cron.after(asked) == next(tick for tick in ticks if tick > asked)
        assert sorted(set(ticks)) == ticks


class TestAnInterval:
    @pytest.mark.parametrize(
        ("interval", "expected"),
        [
            (5 * MINUTE, datetime(2026, 6, 1, 12, 5, tzinfo=UTC)),
            (timedelta(days=1), datetime(2026, 6, 2, tzinfo=UTC)),
            (1.5 * SECOND, datetime(2026, 6, 1, 12, 0, 1, 500_000, tzinfo=UTC)),
        ],
    )
    def test_ticks_at_its_multiples(self, interval: timedelta, expected: datetime) -> None:
        assert Every(interval).after(NOON) == expected
        assert Every(interval).after(expected - timedelta(microseconds=1)) == expected

    @pytest.mark.parametrize("interval", [timedelta(), -MINUTE, SECOND / 2, timedelta(days=400)])
    def test_is_a_second_or_more_and_a_year_at_most(self, interval: timedelta) -> None:
        with pytest.raises(InvalidSchedule, match="a second or more"):
            Every(interval)


class TestMissedTicks:
    """Every minute; the first that was not done is the one at noon."""

    every = Every(MINUTE)

    @pytest.mark.parametrize(
        ("after", "missed", "minutes"),
        [
            # In time.
            (SECOND, "skip", [0]),
            (SECOND, "once", [0]),
            (SECOND, "all", [0]),
            # After five minutes without a worker: the last one is not late yet.
            (5 * MINUTE + SECOND, "skip", [5]),
            (5 * MINUTE + SECOND, "once", [5]),
            (5 * MINUTE + SECOND, "all", [0, 1, 2, 3, 4, 5]),
            # Before the first.
            (-SECOND, "once", []),
            (-SECOND, "all", []),
        ],
    )
    def test_are_made_up_for_as_it_says(
        self, after: timedelta, missed: str, minutes: list[int]
    ) -> None:
        ticks = to_do(self.every, NOON, NOON + after, missed)

        assert ticks == [NOON + minute * MINUTE for minute in minutes]

    @pytest.mark.parametrize("missed", ["skip", "once", "all"])
    @pytest.mark.parametrize("seconds", [0, 5, 59])
    def test_are_none_until_one_is_a_minute_late_and_each_has_its_message(
        self, missed: str, seconds: int
    ) -> None:
        ticks = to_do(Every(SECOND), NOON, NOON + seconds * SECOND, missed)

        assert ticks == [NOON + second * SECOND for second in range(seconds + 1)]

    @pytest.mark.parametrize(("missed", "count"), [("skip", 1), ("once", 1), ("all", 61)])
    def test_are_up_to_what_it_says_once_one_is_a_minute_late(
        self, missed: str, count: int
    ) -> None:
        ticks = to_do(Every(SECOND), NOON, NOON + MINUTE, missed)

        assert (len(ticks), ticks[-1]) == (count, NOON + MINUTE)

    @pytest.mark.parametrize(
        ("late", "is_done"), [(MINUTE - SECOND, True), (MINUTE, False), (HOUR, False)]
    )
    def test_of_a_daily_schedule_are_skipped_once_they_are_a_minute_late(
        self, late: timedelta, is_done: bool
    ) -> None:
        ticks = to_do(Cron("0 12 * * *", "UTC"), NOON, NOON + late, "skip")

        assert ticks == ([NOON] if is_done else [])

    def test_are_a_thousand_at_most_the_last_ones(self) -> None:
        now = NOON + timedelta(days=30)

        ticks = to_do(self.every, NOON, now, "all")

        assert (len(ticks), ticks[-1]) == (MOST, now)
        assert ticks[0] == now - (MOST - 1) * MINUTE

    @given(
        st.integers(1, 5000),
        st.sampled_from([Every(90 * SECOND), Every(HOUR), Cron("7 */3 * * *", BERLIN)]),
    )
    def test_are_the_last_that_there_are(self, minutes: int, rhythm: Every | Cron) -> None:
        now = NOON + minutes * MINUTE
        first = rhythm.after(EPOCH + (NOON - EPOCH))
        all_of_them = [first]
        while (tick := rhythm.after(all_of_them[-1])) <= now:
            all_of_them.append(tick)

        ticks = to_do(rhythm, first, now, "once")

        assert ticks == [tick for tick in all_of_them if tick <= now][-1:]
