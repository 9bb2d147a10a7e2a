"""Which frames of a traceback are shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from traceback import format_exception
from typing import Any

import pytest

from pgqueue.calls.outcomes import Died, Retried
from pgqueue.values import tracebacks
from pgqueue.values.number_checks import as_timedelta


@pytest.fixture(autouse=True)
def _above_debug() -> Iterator[None]:
    logger = logging.getLogger("pgqueue")
    before = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(before)


@tracebacks.calls_user_code
def caller(function: Callable[[], Any]) -> Any:
    return function()


def machinery(function: Callable[[], Any]) -> Any:
    return caller(function)


def raised(function: Callable[[], Any]) -> BaseException:
    try:
        machinery(function)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def names(error: BaseException) -> list[str]:
    """Return the functions of the traceback that is shown."""
    return [frame.name for frame in traceback.extract_tb(tracebacks.shown(error))]


def users() -> None:
    users_helper()


def users_helper() -> None:
    raise ValueError("the user's")


def raises_from() -> None:
    try:
        users()
    except ValueError as error:
        raise KeyError("chained") from error


def test_it_begins_at_the_users_first_frame() -> None:
    error = raised(users)

    assert names(error) == ["users", "users_helper"]
    assert "in machinery" not in tracebacks.text(error)
    assert "in users\n" in tracebacks.text(error)


def test_the_exception_keeps_all_of_it() -> None:
    error = raised(users)
    before = format_exception(error)

    tracebacks.shown(error)
    tracebacks.text(error)

    assert format_exception(error) == before
    assert "in machinery" in "".join(before)


def test_a_task_that_calls_another_task_keeps_its_own_frames() -> None:
    def outer() -> None:
        machinery(users)

    assert names(raised(outer)) == ["outer", "machinery", "caller", "users", "users_helper"]


def test_an_error_before_the_users_code_keeps_all_frames() -> None:
    def needs_an_argument(argument: int) -> None: ...

    error = raised(needs_an_argument)  # type: ignore[arg-type]

    assert names(error) == ["raised", "machinery", "caller"]
    assert tracebacks.text(error) == "".join(format_exception(error))


def test_causes_and_contexts_are_shown_from_the_users_frame_on() -> None:
    error = raised(raises_from)
    error.__cause__ = raised(users)

    text = tracebacks.text(error)

    assert "direct cause" in text
    assert "in users_helper" in text
    assert "in machinery" not in text
    assert "in caller" not in text


def test_a_cycle_of_contexts_has_an_end() -> None:
    error = raised(users)
    other = raised(raises_from)
    error.__context__, other.__context__ = other, error

    assert "the user's" in tracebacks.text(error)


def test_the_members_of_a_group_are_shown_from_the_users_frame_on() -> None:
    def group() -> None:
        raise ExceptionGroup("several", [raised(users), raised(raises_from)])  # type: ignore[list-item]

    text = tracebacks.text(raised(group))

    assert "in group" in text
    assert "chained" in text
    assert text.count("in users_helper") == 2
    assert "in machinery" not in text


def test_everything_is_shown_at_debug() -> None:
    error = raised(users)

    logging.getLogger("pgqueue").setLevel(logging.DEBUG)

    assert names(error) == ["raised", "machinery", "caller", "users", "users_helper"]
    assert "in machinery" in tracebacks.text(error)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "retried at once"),
        (0.01, "retried in 0.01 s"),
        (4, "retried in 4 s"),
        (1.83, "retried in 1.8 s"),
        (75.4, "retried in 75 s"),
        (3600, "retried in 3600 s"),
    ],
)
def test_a_retry_says_in_how_many_seconds(seconds: float, words: str) -> None:
    assert Retried(ValueError(), "{}", as_timedelta(seconds)).consequence == words


def test_a_death_says_that_the_message_is_a_dead_letter() -> None:
    assert Died(ValueError(), "{}").consequence == "dead letter"
