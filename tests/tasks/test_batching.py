"""What `@task(batch=…)` accepts, and what a direct call of a batch task does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from pgqueue import BatchCall, task
from pgqueue.exceptions import InvalidArguments, InvalidResult, InvalidTask
from pgqueue.tasks.batching import BatchTask
from tests import batch_jobs


def takes_calls(calls: list[BatchCall[int]]) -> None: ...


def takes_two(calls: list[BatchCall[int]], more: int) -> None: ...


def takes_none() -> None: ...


def takes_an_int(calls: int) -> None: ...


def takes_ints(calls: list[int]) -> None: ...


def returns_an_int(calls: list[BatchCall[int]]) -> int:
    return 1


class TestADeclaration:
    @pytest.mark.parametrize(
        ("function", "options", "words"),
        [
            (takes_calls, {"batch": 0}, "batch=0: it must be a whole number from 1 to 1000"),
            (takes_calls, {"batch": 1001}, "from 1 to 1000"),
            (takes_calls, {"batch": True}, "from 1 to 1000"),
            (takes_calls, {"batch": None}, "from 1 to 1000"),
            (takes_calls, {"batch": 2, "batch_wait": -1}, "0 seconds or more"),
            (takes_calls, {"batch": 2, "batch_by": "channel"}, "it must be 'key' or None"),
            (takes_calls, {"batch_wait": 1}, "batch_wait needs a batch"),
            (takes_calls, {"batch_by": "key"}, "batch_by needs a batch"),
            (takes_calls, {"batch": 2, "durable": True}, "a durable task stores the steps"),
            (takes_calls, {"batch": 2, "takes_context": True}, "Each call has one: call.context"),
            (takes_calls, {"batch": 2, "logs": "INFO"}, "so logs is invalid"),
            (takes_calls, {"batch": 2, "batch_by": "key", "ordered": True}, "always have one"),
            (takes_two, {"batch": 2}, "has one parameter, the list of its calls"),
            (takes_none, {"batch": 2}, "has one parameter, the list of its calls"),
            (takes_an_int, {"batch": 2}, "a batch task takes a list of BatchCall"),
            (takes_ints, {"batch": 2}, "a batch task takes a list of BatchCall"),
            (returns_an_int, {"batch": 2}, "returns None, or a list"),
        ],
    )
    def test_that_does_not_fit_is_refused(
        self, function: Callable[..., Any], options: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InvalidTask, match=words):
            task(**options)(function)

    @pytest.mark.parametrize("option", [{"batch": 3}, {"batch_wait": 1}, {"batch_by": "key"}])
    def test_belongs_to_the_function(self, option: dict[str, Any]) -> None:
        with pytest.raises(InvalidTask, match="belongs to the function"):
            batch_jobs.double.using(**option)

    def test_has_its_options(self) -> None:
        declared = batch_jobs.by_key

        assert isinstance(declared, BatchTask)
        assert (declared.batch, declared.batch_by) == (10, "key")
        assert declared.batch_wait == timedelta(seconds=0.3)

    def test_is_found_again_by_pickle_with_its_changes(self) -> None:
        changed = pickle.loads(pickle.dumps(batch_jobs.double.using(priority=3)))  # noqa: S301

        assert isinstance(changed, BatchTask)
        assert (changed.priority, changed.batch) == (3, 10)

    def test_using_ordered_by_key_is_refused(self) -> None:
        with pytest.raises(InvalidTask, match="always have one"):
            batch_jobs.by_key.using(ordered=True)


class TestADirectCall:
    def test_is_a_batch_of_one(self) -> None:
        assert batch_jobs.double(21) == 42
        assert batch_jobs.runs[-1] == [21]

    def test_awaits_an_async_function(self) -> None:
        async def call() -> int:
            return await batch_jobs.adouble(21)

        assert async_to_sync(call)() == 42

    def test_raises_the_error_of_its_call(self) -> None:
        with pytest.raises(ValueError, match="3 is odd"):
            batch_jobs.fail_odd(3)

    def test_has_no_context(self) -> None:
        with pytest.raises(InvalidArguments, match="no context: it is a direct call"):
            batch_jobs.describe(1)

    def test_has_the_arguments_of_the_calls(self) -> None:
        with pytest.raises(InvalidArguments, match="doesn't fit"):
            batch_jobs.double()  # type: ignore[call-overload]

    def test_returns_a_list_with_one_result(self) -> None:
        assert batch_jobs.return_too_few(1) == 1

        with pytest.raises(InvalidResult, match="returned a generator: a batch task returns None"):
            batch_jobs.return_a_generator(1)


class TestACall:
    def test_is_failed_by_an_exception_only(self) -> None:
        call: BatchCall[int] = BatchCall((1,))

        with pytest.raises(TypeError, match="takes an exception, not 'no'"):
            call.fail("no")  # type: ignore[arg-type]

    def test_is_failed_by_its_last_error(self) -> None:
        call: BatchCall[int] = BatchCall((1,))
        call.fail(ValueError("first"))

        call.fail(KeyError("last"))

        assert isinstance(call.error, KeyError)


@pytest.mark.django_db
class TestAnEnqueue:
    def test_stores_one_message_for_each_call(self) -> None:
        result = batch_jobs.double.enqueue(1)

        assert (result.args, result.kwargs) == ((1,), {})

    def test_has_the_arguments_of_a_call(self) -> None:
        with pytest.raises(InvalidArguments, match="too many positional"):
            batch_jobs.double.enqueue(1, 2)  # type: ignore[call-arg]
        with pytest.raises(InvalidArguments, match="missing a required argument"):
            batch_jobs.double.enqueue(number=2)  # type: ignore[call-arg]
