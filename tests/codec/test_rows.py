"""Rows of tables as arguments: a text is read by the hint, and an empty cell as the hint allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from django.db.models import IntegerChoices

from pgqueue.codec.arguments import Codec
from pgqueue.exceptions import UnreadablePayload


class Size(IntegerChoices):
    SMALL = 1


def taking(hint: Any, *, has_default: bool) -> Codec:
    def func(value: Any, **rest: Any) -> None: ...

    def optional(value: Any = 3, **rest: Any) -> None: ...

    chosen = optional if has_default else func
    chosen.__annotations__ = {} if hint is None else {"value": hint}
    return Codec(chosen)


def read(
    hint: Any, cell: Any, *, is_typed: bool = False, has_default: bool = False
) -> Mapping[str, Any]:
    payload = json.dumps({"args": [], "kwargs": {"value": cell}})
    return taking(hint, has_default=has_default).read_row(payload, is_typed=is_typed)


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (None, "01", "01"),
        (Any, "true", "true"),
        (str, "01", "01"),
        (int | str, "01", "01"),
        (Literal["1"], "1", "1"),
        (int, "007", 7),
        (int | None, " -5 ", -5),
        (float, "1e3", 1000.0),
        (float, ".5", 0.5),
        (Decimal, "12345678901234567890.10", Decimal("12345678901234567890.10")),
        (date, "2026-01-02", date(2026, 1, 2)),
        (bool, "TRUE", True),
        (bool, "0", False),
        (Size, "1", Size.SMALL),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, Decimal], '{"a": 1.10}', {"a": Decimal("1.10")}),
    ],
)
def test_a_text_is_read_by_the_hint(hint: Any, text: str, value: Any) -> None:
    found = read(hint, text)["value"]

    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "1.5"),
        (int, "1_000"),
        (int, "\N{ARABIC-INDIC DIGIT ONE}"),
        (int, ""),
        (float, "nan"),
        (bool, "maybe"),
        (list[int], "1, 2"),
        (list[int], '{"a": 1}'),
        (date, "02.01.2026"),
        (Size, "2"),
    ],
)
def test_a_text_that_is_none_of_the_hint_is_refused(hint: Any, text: str) -> None:
    with pytest.raises(UnreadablePayload, match="argument 'value'"):
        read(hint, text)


@pytest.mark.parametrize(
    ("hint", "has_default", "found"),
    [
        (None, False, {"value": None}),
        (str, False, {"value": ""}),
        (str | None, False, {"value": None}),
        (int | None, True, {"value": None}),
        (int, True, {}),
    ],
)
def test_an_empty_cell_is_what_the_hint_allows(
    hint: Any, has_default: bool, found: Mapping[str, Any]
) -> None:
    assert read(hint, None, has_default=has_default) == found


def test_an_empty_cell_is_refused_where_a_value_is_needed() -> None:
    with pytest.raises(UnreadablePayload, match="argument 'value' .* has no value"):
        read(int, None)


def test_a_null_of_a_source_with_types_is_none() -> None:
    assert read(str, None, is_typed=True) == {"value": None}
    assert read(int, None, is_typed=True, has_default=True) == {"value": None}
