"""Tasks of `django.tasks` as messages of a flow."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from pgqueue import InvalidFlow, chain, chord, flow
from pgqueue.models import Message
from pgqueue.states import Outcome
from pgqueue.testing import run_all
from tests import flow_jobs
from tests.backend import jobs

pytestmark = pytest.mark.django_db


def value_of(member: Any) -> Any:
    member.refresh()
    return member.return_value


class TestATaskOfDjangos:
    def test_waits_and_is_waited_for(self) -> None:
        with flow("mixed") as f:
            first = f.enqueue(jobs.add, 1, b=2)
            second = f.enqueue(jobs.double, first)
            own = f.enqueue(flow_jobs.add_to, second, 10)
            last = f.enqueue(jobs.mail, own)

        assert Message.objects.get(pk=last.id).channel == "mail"
        run_all()

        assert [value_of(each) for each in (first, second, own, last)] == [3, 6, 16, "mailed 16"]

    def test_gets_a_result_as_the_parent_or_the_parameter_says(self) -> None:
        with flow("days") as f:
            day = f.enqueue(jobs.tomorrow, date(2030, 1, 1))
            end = f.enqueue(flow_jobs.kind_of, day)
            typed = f.enqueue(jobs.tomorrow, day)

        run_all()

        assert value_of(end) == "date"
        assert value_of(typed) == date(2030, 1, 3)

    def test_is_found_by_its_own_get_result(self) -> None:
        with flow("found") as f:
            end = f.enqueue(jobs.add, f.enqueue(flow_jobs.number, 1), b=2)

        run_all()

        found = jobs.add.get_result(end.id)
        assert found.return_value == 3
        assert found.is_finished

    def test_that_fails_is_what_its_child_says(self) -> None:
        with flow("fails") as f:
            bad = f.enqueue(jobs.fail, "gone")
            spared = f.enqueue(jobs.add, bad, on_failure="cancel")
            end = f.enqueue(flow_jobs.failures, bad, spared, on_failure="run")

        run_all()

        spared.refresh()
        assert spared.status is Outcome.CANCELLED
        assert value_of(end)[0] == "dead: gone"

    def test_is_part_of_chains_and_chords(self) -> None:
        last = chain(flow_jobs.number.call(1), jobs.double, jobs.add).enqueue()
        both = chord([flow_jobs.number.call(2), flow_jobs.number.call(3)], jobs.echo).enqueue()

        run_all()

        assert value_of(last) == 2
        assert value_of(both) == [[[2, 3]], {}]

    def test_of_another_backend_is_refused(self) -> None:
        with pytest.raises(InvalidFlow, match="django.tasks backend"), flow("elsewhere") as f:
            f.enqueue(jobs.elsewhere, "word")
        with pytest.raises(InvalidFlow, match="not stored on 'default'"), flow("there") as f:
            f.enqueue(jobs.there, "word")
