"""The idle policy, without a database or a clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.claiming.idle import (
    CLAIMS_A_SECOND_WHEN_BUSY,
    DEAF_NAP,
    EMPTY_CLAIMS_AFTER_WITHDRAWAL,
    FULL_CLAIMS_WHEN_BUSY,
    LISTENING_NAP,
    SHORTEST_PAUSE,
    Busyness,
    Idle,
)

HOUR = timedelta(hours=1)


@pytest.fixture
def idle() -> Idle:
    return Idle(HOUR)


def milliseconds(idle: Idle, *, is_listening: bool = True) -> float:
    return idle.next_nap(is_listening=is_listening, wake_in=None) / timedelta(milliseconds=1)


class TestNaps:
    def test_double_from_10_ms(self, idle: Idle) -> None:
        assert [milliseconds(idle) for _ in range(5)] == [10, 20, 40, 80, 160]

    def test_begin_at_10_ms_again_after_messages_were_found(self, idle: Idle) -> None:
        milliseconds(idle)

        idle.found(0, is_full=False)

        assert milliseconds(idle) == 10

    @pytest.mark.parametrize(
        ("is_listening", "longest"), [(True, LISTENING_NAP), (False, DEAF_NAP)]
    )
    def test_are_bounded_by_whether_it_listens(
        self, idle: Idle, is_listening: bool, longest: timedelta
    ) -> None:
        naps = [idle.next_nap(is_listening=is_listening, wake_in=None) for _ in range(20)]

        assert naps[-1] == longest

    def test_are_no_longer_than_the_poll_interval(self) -> None:
        idle = Idle(timedelta(seconds=0.1))

        naps = [idle.next_nap(is_listening=True, wake_in=None) for _ in range(20)]

        assert max(naps) == timedelta(seconds=0.1)

    def test_end_when_a_rate_allows_the_next_start_but_not_at_once(self, idle: Idle) -> None:
        soon, over = timedelta(milliseconds=4), timedelta()

        assert idle.next_nap(is_listening=True, wake_in=soon) == soon
        assert idle.next_nap(is_listening=True, wake_in=over) == SHORTEST_PAUSE


class TestNotifications:
    def test_are_kept_by_full_claims_where_few_messages_are_claimed_at_once(self) -> None:
        idle = Idle(HOUR, full_claims_when_busy=None)
        for second in range(10):
            idle.found(second, is_full=True)

        assert not idle.should_withdraw(10)

    def test_are_asked_for_after_the_first_claim_that_found_nothing(self, idle: Idle) -> None:
        assert not idle.should_ask()

        idle.found_nothing()

        assert idle.should_ask()

    def test_are_asked_for_again_only_after_several_such_claims(self, idle: Idle) -> None:
        idle.withdrew(0)

        asks = []
        for _ in range(EMPTY_CLAIMS_AFTER_WITHDRAWAL):
            idle.found_nothing()
            asks.append(idle.should_ask())

        assert asks == [False] * (EMPTY_CLAIMS_AFTER_WITHDRAWAL - 1) + [True]

    def test_are_withdrawn_once_a_second_at_most(self, idle: Idle) -> None:
        for _ in range(FULL_CLAIMS_WHEN_BUSY):
            idle.found(10, is_full=True)
        assert idle.should_withdraw(10)

        idle.withdrew(10)

        assert not idle.should_withdraw(10.9)
        assert idle.should_withdraw(11)


class TestBusyness:
    def test_is_reached_by_full_claims_in_a_row(self) -> None:
        busyness = Busyness()
        for _ in range(FULL_CLAIMS_WHEN_BUSY):
            assert not busyness.is_busy()
            busyness.found(0, is_full=True)

        assert busyness.is_busy()

    def test_is_not_reached_with_an_empty_claim_between_them(self) -> None:
        # A worker with one thread asks for one message at a time, and each such claim is full.
        busyness = Busyness()
        for second in range(10):
            busyness.found(second, is_full=True)
            busyness.found_nothing()

        assert not busyness.is_busy()

    def test_is_reached_by_many_claims_in_a_second(self) -> None:
        busyness = Busyness()
        for number in range(CLAIMS_A_SECOND_WHEN_BUSY):
            assert not busyness.is_busy()
            busyness.found(number / 1000, is_full=False)

        assert busyness.is_busy()
