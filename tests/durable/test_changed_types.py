"""Steps whose type hint has changed since their result was stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from pgqueue.durable import DurableContext
from pgqueue.models import Message
from tests.class_jobs import DAY, Attrs, Dict, Model, Money, Struct, Tuple, model
from tests.durable.running import durable, run

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Amount:
    cents: int


def changed(old: Any, value: Any, new: Any) -> Any:
    """Return a run whose step has returned a value, and is of another type hint by now."""

    def when() -> Any:
        return value

    def now() -> Any:
        raise AssertionError("it is done")

    now.__name__, now.__qualname__ = when.__name__, when.__qualname__
    when.__annotations__["return"], now.__annotations__["return"] = old, new
    function: Any = when

    @durable(max_attempts=1)
    def works(run: DurableContext) -> Any:
        value = run.step(function)
        run.wait_for("go")
        return value

    result = works.enqueue()
    run(result)
    function = now
    result.signal("go")
    return result


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        (str, "soon", timedelta),
        (str, "2", int),
        (int, 2, str),
        (int, 2, list[int]),
        (int, 2, Amount),
        (bool, True, int),
        (str | None, None, str),
        (dict, {"cents": 2}, int),
        (int, 2, Model),
        (dict, {"amount": 2, "day": "2030-01-02"}, Model),
        (Dict, {"amount": 1, "day": DAY}, Tuple),
        (Money, Money(1), str),
        (str, "1 ct", Money),
    ],
)
def test_a_step_whose_type_has_changed_is_an_error_of_the_step(
    old: Any, value: Any, new: Any
) -> None:
    result = changed(old, value, new)

    assert run(result) == "dead"
    assert "UnreadablePayload: the result of" in result.errors[-1].traceback
    assert "when" in result.errors[-1].traceback


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        (Model, model(), Attrs),
        (Attrs, Attrs(1, DAY), Tuple),
        (Tuple, Tuple(1, DAY), tuple[int, Any]),
        (Struct, Struct(1, DAY), dict),
    ],
)
def test_a_step_whose_class_the_hint_does_not_name_is_left_to_newer_code(
    old: Any, value: Any, new: Any
) -> None:
    result = changed(old, value, new)

    assert run(result) == "scheduled"
    [metadata] = Message.objects.values_list("metadata", flat=True)
    assert metadata["handed_back"]["for"] == "newer payload"
