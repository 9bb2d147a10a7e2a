"""The errors of the package, and what a task raises to end its run."""

from __future__ import annotations

from copy import copy
from datetime import timedelta

import pytest

import pgqueue
from pgqueue import RateLimited, exceptions
from pgqueue.exceptions import Cancel, Defer, Discard, EndOfRun, PGQueueError, Retry


def test_every_public_error_is_a_pgqueue_error() -> None:
    public = [getattr(pgqueue, name) for name in pgqueue.__all__]
    errors = {each for each in public if isinstance(each, type) and issubclass(each, Exception)}

    assert {each.__name__ for each in errors if not issubclass(each, PGQueueError)} == {
        "OtherTransactionWarning"
    }
    assert pgqueue.TransactionLost in errors


def test_every_error_that_users_may_catch_is_public() -> None:
    ours = {
        name
        for name, each in vars(exceptions).items()
        if isinstance(each, type) and issubclass(each, BaseException)
    }

    # EndOfRun is the base of four that are public, and only the worker catches Suspend. The others
    # are texts in a message's errors.
    assert ours - set(pgqueue.__all__) == {
        *("EndOfRun", "ReaderLost", "RetryRequested", "Suspend", "TickMissed", "UnreadableMessage")
    }


@pytest.mark.parametrize("end", [Retry, Defer, RateLimited, Discard, Cancel])
class TestAnEndOfARun:
    def test_is_no_error_that_a_task_might_catch_by_accident(self, end: type[EndOfRun]) -> None:
        assert issubclass(end, BaseException)
        assert not issubclass(end, Exception | PGQueueError)

    def test_says_in_a_line_what_it_is_unless_told(self, end: type[EndOfRun]) -> None:
        assert str(end()).startswith("The task ")
        assert "\n" not in str(end())


def test_a_reason_is_its_text() -> None:
    assert str(Discard("the order is gone")) == "the order is gone"


@pytest.mark.parametrize("end", [Retry, Defer, RateLimited])
def test_a_delay_is_seconds_or_a_timedelta(end: type[Retry | Defer]) -> None:
    assert end(90).delay == end(timedelta(minutes=1.5)).delay == timedelta(seconds=90)
    with pytest.raises(TypeError, match="neither seconds nor a timedelta"):
        end("soon")  # type: ignore[arg-type]


def test_a_rate_limit_is_not_over_before_now() -> None:
    with pytest.raises(ValueError, match="it can't be below 0"):
        RateLimited(retry_after=-1)


def test_a_copy_defers_for_as_long() -> None:
    deferral = copy(Defer(90, progress=[1]))

    assert (deferral.delay, deferral.progress) == (timedelta(seconds=90), [1])
