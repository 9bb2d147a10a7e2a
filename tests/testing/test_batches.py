"""Batch tasks in the tests of a project."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.test import TestCase, TransactionTestCase

from pgqueue import Channel
from pgqueue.states import Outcome, State
from pgqueue.testing import immediate, run_all
from tests import batch_jobs


class Running:
    def test_a_batch_has_the_messages_that_are_ready(self) -> None:
        batch_jobs.runs.clear()
        batch_jobs.double.enqueue_many([(number,) for number in range(12)])
        batch_jobs.double.using(timeout=60).enqueue(12)

        ran = run_all()

        assert sorted(map(len, batch_jobs.runs)) == [1, 2, 10]
        assert sorted(each.return_value for each in ran) == [2 * number for number in range(13)]

    def test_a_batch_by_key_has_one_key(self) -> None:
        batch_jobs.runs.clear()
        for number in range(4):
            batch_jobs.by_key.using(key=str(number % 2)).enqueue(number)

        run_all()

        assert sorted(map(sorted, batch_jobs.runs)) == [[0, 2], [1, 3]]

    def test_a_call_fails_alone_and_is_retried(self) -> None:
        results = batch_jobs.fail_odd.enqueue_many([(2,), (3,)])

        ran = run_all(retries=True)

        assert len(ran) == 3
        for each in results:
            each.refresh()
        assert [each.status for each in results] == [Outcome.SUCCEEDED, State.DEAD]

    def test_the_error_of_a_call_is_raised(self) -> None:
        batch_jobs.fail_odd.enqueue_many([(2,), (3,)])

        with pytest.raises(ValueError, match="3 is odd"):
            run_all(raise_errors=True)

    def test_an_atomic_batch_is_undone_as_a_whole(self) -> None:
        batch_jobs.make_groups.enqueue_many([("a",), ("raise",)])
        run_all()
        assert not Group.objects.exists()

        batch_jobs.make_groups.enqueue_many([("a",), ("fail",), ("b",)])
        ran = run_all()

        assert [each.status for each in ran] == [Outcome.SUCCEEDED, State.DEAD, Outcome.SUCCEEDED]
        assert Group.objects.count() == 2

    def test_the_error_of_an_atomic_batch_is_raised(self) -> None:
        batch_jobs.make_groups.enqueue_many([("a",), ("fail",)])

        with pytest.raises(ValueError, match="asked to fail"):
            run_all(raise_errors=True)

    def test_messages_under_a_policy_are_batched_as_far_as_it_allows(self) -> None:
        batch_jobs.runs.clear()
        Channel("default").policy(max_running=2)
        batch_jobs.double.enqueue_many([(number,) for number in range(4)])

        run_all()

        assert sorted(map(len, batch_jobs.runs)) == [2, 2]

    def test_at_once_a_message_runs_alone(self) -> None:
        with immediate():
            result = batch_jobs.double.enqueue(21)

        assert result.return_value == 42


class TestInATransaction(Running, TestCase): ...


class TestInNone(Running, TransactionTestCase): ...
