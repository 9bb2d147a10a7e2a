"""Flows in the tests of a project: inside a TestCase's transaction, which is never committed."""

from __future__ import annotations

import pytest
from django.test import TestCase

from pgqueue import chord, flow
from pgqueue.models import Blocked
from pgqueue.states import Outcome, State
from pgqueue.testing import assert_enqueued, assert_not_enqueued, immediate, run_all
from tests import flow_jobs as jobs


class TestATestCase(TestCase):
    def test_runs_flows_in_their_order(self) -> None:
        with flow("ordered") as f:
            end = f.enqueue(jobs.total, [f.enqueue(jobs.grow, 2), f.enqueue(jobs.number, 5)])

        ran = run_all()

        assert [each.task.name.rpartition(".")[2] for each in ran] == [
            *("grow", "number", "number", "number", "total", "total")
        ]
        end.refresh()
        assert end.return_value == 4
        assert f.progress.done == 6
        assert not Blocked.objects.exists()

    def test_sees_an_error_and_goes_on_after_a_retry(self) -> None:
        with flow("failed") as f:
            end = f.enqueue(jobs.total, [f.enqueue(jobs.fail, "gone")])

        with pytest.raises(ValueError, match="gone"):
            run_all(raise_errors=True)

        end.refresh()
        assert end.status is State.HELD
        assert f.retry().done
        assert len(run_all()) == 1

    def test_runs_them_as_soon_as_they_are_stored(self) -> None:
        with immediate():
            last = chord(jobs.number.map([1, 2]), jobs.total).enqueue()
            with flow("at once") as f:
                f.enqueue(jobs.grow_atomically, 2)

        assert last.status is Outcome.SUCCEEDED
        assert last.return_value == 3
        assert f.progress == (3, 0, 0, 0, 0)

    def test_knows_what_waits(self) -> None:
        with flow("waits") as f:
            f.enqueue(jobs.number, 1)
            f.enqueue(jobs.nothing, after=f.enqueue(jobs.number, 2))

        assert_enqueued(jobs.nothing, count=1)
        assert_enqueued(jobs.number, count=2)
        run_all()
        assert_not_enqueued(jobs.nothing)
