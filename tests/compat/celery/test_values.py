"""What tasks are given and return: whatever Celery's JSON takes."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from django.http import QueryDict
from django.utils.translation import gettext_lazy, override

from pgqueue.compat.celery import chain, states
from pgqueue.compat.celery.result import result_from_tuple
from pgqueue.exceptions import InvalidArgument, InvalidArguments, InvalidResult
from pgqueue.models import Dependency, Message, Schedule
from pgqueue.tasks import scheduling
from pgqueue.testing import run_all
from tests.class_jobs import DAY, Tuple, model
from tests.compat.celery import jobs
from tests.compat.celery.jobs import SEEN

pytestmark = pytest.mark.django_db


class Point(NamedTuple):
    x: int
    y: int


class Names(list[str]):
    """Such as a ReturnList."""


class Money:
    def __json__(self) -> Any:
        return {"amount": 5}


CASES = [
    ({1: "a", None: 2, 1.5: 3}, {"1": "a", "null": 2, "1.5": 3}),
    ({False: 1}, {"false": 1}),
    (OrderedDict(b=1, a={2: 3}), {"a": {"2": 3}, "b": 1}),
    (defaultdict(int, a=1), {"a": 1}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (QueryDict("a=1&a=2"), {"a": "2"}),
    (Point(1, 2), (1, 2)),
    ([Names(["ada"])], [["ada"]]),
    (gettext_lazy("Monday"), "Monday"),
    (Money(), {"amount": 5}),
    ({1: date(2030, 1, 1), 2: [Decimal("1.50")]}, {"1": date(2030, 1, 1), "2": [Decimal("1.50")]}),
]


@pytest.mark.parametrize(("given", "stored"), CASES)
def test_what_comes_back_as_something_else_is_written_as_there(given: Any, stored: Any) -> None:
    jobs.note.delay(given, named=given)
    jobs.RETURNED["it"] = given
    result = jobs.give.delay("it")
    run_all()

    assert [(stored, {"named": stored})] == SEEN
    assert type(SEEN[0][0]) is type(stored)
    assert result.get() == stored
    assert jobs.give.apply(("it",)).successful()
    assert jobs.note.apply((given,)).successful()


def test_what_the_codec_takes_beside_it_comes_back_as_what_it_was() -> None:
    jobs.take_order.delay(jobs.Order(date(2030, 1, 1)), {1: "a"})
    run_all()

    assert [(jobs.Order(date(2030, 1, 1)), {"1": "a"})] == SEEN


def test_classes_of_its_hints_and_lazy_texts_come_back() -> None:
    given = (model(), Tuple(1, DAY), gettext_lazy("Monday"))
    with override("de"):
        result = jobs.take_classes.delay(*given)
    run_all(raise_errors=True)

    assert result.get() == model()
    assert [(model(), Tuple(1, DAY), "Montag")] == SEEN
    assert type(SEEN[0][1]) is Tuple


def test_what_takes_a_result_waits_for_it_once() -> None:
    jobs.RETURNED["it"] = {1: 2}
    chain(jobs.give.s("it"), jobs.note.s({3: 4}))()

    assert Dependency.objects.count() == 1
    run_all()
    assert SEEN == [({"1": 2}, {"3": 4})]


def test_an_errback_is_given_it_too() -> None:
    jobs.fail.apply_async(("no",), link_error=jobs.note.si({1: 2}))
    run_all()

    assert len(SEEN) == 1


def test_a_schedule_has_it_too(settings: Any) -> None:
    settings.CELERY_BEAT_SCHEDULE = {
        "often": {"task": jobs.note.name, "schedule": 60, "args": ({1: 2},)}
    }
    [declared] = [each for each in scheduling.declared("default") if each.name == "often"]

    assert declared.args == '[{"1": 2}]'
    assert not Schedule.objects.exists()


def test_a_note_of_a_run_may_have_it() -> None:
    jobs.note_state.delay({1: 2})
    run_all()

    assert SEEN == [("PROGRESS", {"1": 2})]


def test_what_json_can_not_hold_is_refused_beside_it() -> None:
    around: list[Any] = []
    around.append(around)

    with pytest.raises(InvalidArgument, match=r"argument 'x' of .*: \['1'\] is a .*Order"):
        jobs.add.delay({1: jobs.Order(date(2030, 1, 1))}, 1)
    for refused in (around, {1: Names([around])}):
        with pytest.raises(InvalidArgument, match="contains itself"):
            jobs.add.delay(refused, 1)
    with pytest.raises(InvalidArgument, match="key"):
        jobs.add.delay({(1, 2): 3}, 1)


def test_a_result_that_can_not_be_stored_is_a_failure_unless_none_is_kept() -> None:
    jobs.RETURNED["it"] = object()
    failed, ignored = jobs.give.delay("it"), jobs.give.apply_async(("it",), ignore_result=True)
    run_all()

    assert (failed.state, ignored.state) == (states.FAILURE, states.SUCCESS)
    with pytest.raises(InvalidResult):
        failed.get()


def test_so_it_is_where_a_task_is_applied() -> None:
    jobs.RETURNED["it"] = object()
    applied = jobs.give.apply(("it",))

    assert isinstance(applied.result, InvalidResult) and applied.failed()
    assert len(SEEN) == 1
    assert jobs.give.apply(("it",), ignore_result=True).successful()


def test_a_coroutine_that_nobody_runs_is_a_failure_also_where_no_result_is_kept() -> None:
    async def never() -> None: ...

    jobs.RETURNED["it"] = never()
    applied = jobs.give.apply(("it",), ignore_result=True)

    assert isinstance(applied.result, InvalidResult) and applied.failed()


def test_a_result_of_a_result_is_what_it_is_found_by() -> None:
    outer = jobs.call_another.delay([1, 2])
    several = jobs.call_another.delay([[1, 2], [3, 4]])
    run_all()

    assert result_from_tuple(outer.get()).get() == 3
    assert result_from_tuple(several.get()).get() == [3, 7]
    assert jobs.call_another.apply(([1, 2],)).successful()


def test_a_call_that_does_not_fit_is_stored_where_nobody_is_to_look() -> None:
    with pytest.raises(InvalidArguments):
        jobs.add.delay(1)
    result = jobs.unchecked.delay(1, 2, 3)
    run_all()

    with pytest.raises(TypeError, match="positional"):
        result.get()
    assert Message.objects.get().failures == 1
