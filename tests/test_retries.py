from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from pgqueue import backoff as declared
from pgqueue.options.retries import (
    Delays,
    Exponential,
    as_backoff,
    dump_backoff,
    load_backoff,
)
from pgqueue.values.attempts import MAX_ATTEMPTS


def after(failures: int) -> SimpleNamespace:
    return SimpleNamespace(failures=failures)


@declared
def quick(error: BaseException, result: object) -> float:
    return 0.1


def test_an_exponential_backoff_doubles_up_to_its_cap() -> None:
    backoff = Exponential(base=2, cap=60, jitter=0)

    delays = [backoff(None, after(failures)) for failures in (1, 2, 3, 4, 5, 6, 7, 10_000)]

    assert delays == [2, 4, 8, 16, 32, 60, 60, 60]


def test_without_options_a_message_is_retried_for_about_three_days() -> None:
    steady = Exponential(jitter=0)
    waits = [steady(None, after(failures)) for failures in range(1, MAX_ATTEMPTS)]

    assert len(waits) == 19
    assert waits[:4] == [2, 4, 8, 16]  # five attempts still take half a minute
    assert max(waits) == 43_200
    assert timedelta(days=2.5) < timedelta(seconds=sum(waits)) < timedelta(days=3)


def test_the_waits_without_options_are_varied_by_a_fifth() -> None:
    drawn = {Exponential()(None, after(16)) for _ in range(1000)}

    assert 0.8 * 43_200 <= min(drawn) < 0.9 * 43_200
    assert 1.1 * 43_200 < max(drawn) <= 1.2 * 43_200


def test_jitter_spreads_messages_that_failed_together() -> None:
    backoff = Exponential(base=10, jitter=0.2)

    delays = {backoff(None, after(1)) for _ in range(1000)}

    assert min(delays) >= 8
    assert max(delays) <= 12
    assert len(delays) > 900


def test_the_last_of_a_list_of_delays_repeats() -> None:
    backoff = as_backoff([1, timedelta(seconds=5)])

    assert [backoff(ValueError(), after(failures)) for failures in (1, 2, 3)] == [1, 5, 5]


@pytest.mark.parametrize("backoff", [Exponential(base=1, cap=9), Delays((1.0, 2.5)), quick])
def test_a_backoff_travels_with_a_message(backoff: object) -> None:
    assert load_backoff(dump_backoff(backoff)) == backoff  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Exponential, "x", 3, None, [], [-1], ["1"]])
def test_what_is_no_backoff_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        as_backoff(wrong)


@pytest.mark.parametrize("wrong", [{"base": 0}, {"cap": -1}, {"jitter": 2}])
def test_an_exponential_backoff_has_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="it must be from"):
        Exponential(**wrong)
