"""Types that a project registers with the codec."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest

from pgqueue import InvalidType, codec
from pgqueue.codec import encoding, own_types, raw
from pgqueue.codec.encoding import ExactHint
from pgqueue.exceptions import (
    InvalidArgument,
    InvalidProgress,
    InvalidResult,
    NewerPayload,
    UnreadablePayload,
)
from tests.class_jobs import Money
from tests.codec.test_arguments import codec_of, received, sent, there_and_back

TAGGED = {"@": "tests.class_jobs.Money", "value": "5 ct"}


class Euros(Money):
    """A subclass that is not registered."""


class Price(Decimal):
    """A subclass of a type that the codec knows."""


class Cents(Price): ...


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int


class Size(enum.Enum):
    SMALL = 1


class Anything:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    """Forget at the end which types a test has registered."""
    with ExitStack() as stack:
        for known in (own_types._functions, encoding.own_forms, encoding._own_by_tag):
            stack.enter_context(patch.dict(known))  # type: ignore[arg-type]
        yield


class TestAValue:
    @pytest.mark.parametrize("hint", [Any, Money, Money | None, list[int], str | Money, dict])
    def test_comes_back_with_and_without_its_hint(self, hint: Any) -> None:
        assert there_and_back(codec_of(hint), Money(5)) == ([Money(5)], {})
        assert codec_of(hint).decode_result(codec_of(hint).encode_result(Money(5))) == Money(5)

    def test_is_as_encoded_under_its_hint_and_tagged_elsewhere(self) -> None:
        assert sent(Money, Money(5)) == "5 ct"
        assert sent(list[Money], [Money(5)]) == ["5 ct"]
        assert sent(Any, {"a": [Money(5)]}) == {"a": [TAGGED]}
        assert received(Money, "5 ct") == Money(5)
        assert received(Any, TAGGED) == Money(5)

    def test_of_another_type_comes_back_as_it_is(self) -> None:
        for value in ("5 ct", 5, None, [1], {"a": 1}, date(2030, 1, 2)):
            assert there_and_back(codec_of(Money), value) == ([value], {})

    def test_is_progress_a_raw_payload_and_a_part_of_both(self) -> None:
        progress = codec_of(Any).encode_progress({"spent": Money(5)})
        payload = raw.encode("the payload", [Money(5)])

        assert codec_of(Any).decode_progress(progress) == {"spent": Money(5)}
        assert raw.decode("the payload", (payload or "").encode()) == [Money(5)]

    @pytest.mark.parametrize(
        "value", [None, True, 1, 1e16, "a", [1], {"@": 1}, {"@": "result", "value": 1}]
    )
    def test_is_any_json_that_its_function_returns(self, value: Any) -> None:
        codec.register(Anything, encode=lambda each: each.value, decode=Anything)

        for hint in (Anything, Any):
            args, _ = there_and_back(codec_of(hint), Anything(value))
            assert type(args[0]) is Anything
            assert args[0].value == value

    def test_of_a_dataclass_an_enum_or_a_subclass_of_a_scalar_has_the_registered_form(self) -> None:
        codec.register(Point, encode=lambda p: [p.x, p.y], decode=lambda pair: Point(*pair))
        codec.register(Size, encode=lambda size: size.value, decode=Size)
        codec.register(Price, encode=str, decode=Price)

        for value, plain in [(Point(1, 2), [1, 2]), (Size.SMALL, 1), (Price("1.10"), "1.10")]:
            assert sent(type(value), value) == plain
            [back], _ = there_and_back(codec_of(Any), value)
            assert (back, type(back)) == (value, type(value))

    def test_of_a_type_that_is_not_registered_here_is_newer(self) -> None:
        with pytest.raises(NewerPayload, match=r"argument 'value' of .*has no tag that is known"):
            received(Any, {"@": "shop.Voucher", "value": 1})


class TestASubclass:
    def test_is_refused(self) -> None:
        for hint in (Any, Money, list):
            with pytest.raises(InvalidArgument, match=r"Euros, which is no .*Money itself: reg"):
                sent(hint, Euros(5))

    def test_of_a_scalar_is_the_scalar_where_no_hint_names_the_type(self) -> None:
        codec.register(Price, encode=str, decode=Price)

        assert sent(Decimal, Cents(1)) == "1"
        with pytest.raises(InvalidArgument, match=r"Cents, which is no .*Price itself"):
            sent(Price, Cents(1))

    def test_may_be_registered_itself(self) -> None:
        codec.register(Euros, encode=str, decode=Euros.parse)

        assert sent(Money | Euros, Euros(5))["@"] == f"{__name__}.Euros"
        assert type(received(Euros, "5 ct")) is Euros


def broken(value: Any) -> Any:
    raise KeyError("the rate")


class TestAnError:
    def test_of_encode_names_the_argument_and_the_task(self) -> None:
        codec.register(Anything, encode=broken, decode=Anything)
        reason = r"is a .*Anything that can't be encoded: KeyError: 'the rate'"

        with pytest.raises(InvalidArgument, match=r"argument 'value' of .*task: \[0\] " + reason):
            sent(Any, [Anything(1)])
        with pytest.raises(InvalidResult, match=r"the result of .*\.task " + reason):
            codec_of(Anything).encode_result(Anything(1))
        with pytest.raises(InvalidProgress, match=r"the progress of .*\.task " + reason):
            codec_of(Any).encode_progress(Anything(1))

    def test_of_what_encode_returns_names_them_too(self) -> None:
        codec.register(Anything, encode=lambda each: {"a": object()}, decode=Anything)

        with pytest.raises(InvalidArgument, match=r"'value' of .*task: \['a'\] is a object"):
            sent(Anything, Anything(1))

    @pytest.mark.parametrize("plain", ["5 mm", "5", 5])
    def test_of_decode_about_the_value_names_the_argument_and_the_task(self, plain: Any) -> None:
        if plain == 5:
            codec.register(Anything, encode=str, decode=broken)

        with pytest.raises(UnreadablePayload, match=r"argument 'value' of .*task can't be read"):
            received(Anything if plain == 5 else Money, plain)

    def test_of_decode_about_something_else_stays_with_a_note(self) -> None:
        def fetched(plain: Any) -> Anything:
            raise OSError("no network")

        codec.register(Anything, encode=lambda each: each.value, decode=fetched)

        with pytest.raises(OSError, match="no network") as raised:
            received(list[Anything], [1])
        assert raised.value.__notes__ == [
            "It was raised while argument 'value' of "
            "tests.codec.test_arguments.codec_of.<locals>.task was read."
        ]


class TestLaterCode:
    @pytest.mark.parametrize("other", [int, str, dict, Point])
    def test_refuses_it_under_another_hint(self, other: Any) -> None:
        stored = ExactHint(Money).write(Money(5))

        assert ExactHint(Money).read(stored) == Money(5)
        assert ExactHint(Any).read(stored) == Money(5)
        with pytest.raises(ValueError, match="it is no"):
            ExactHint(other).read(stored)

    def test_does_not_meet_one_that_the_hint_does_not_name(self) -> None:
        with pytest.raises(encoding.Unstorable, match="Money, which the type hint does not name"):
            ExactHint(int).write(Money(5))
        assert ExactHint(Any).write(Money(5)) == TAGGED
        assert ExactHint(list).read(ExactHint(list).write([Money(5)])) == [Money(5)]


class TestRegister:
    def test_again_with_the_same_functions_changes_nothing(self) -> None:
        codec.register(Anything, encode=broken, decode=Anything)
        form = encoding.own_forms[Anything]

        codec.register(Anything, encode=broken, decode=Anything)

        assert encoding.own_forms[Anything] is form

    def test_with_other_functions_is_an_error(self) -> None:
        with pytest.raises(InvalidType, match=r"Money\): it is registered with other functions"):
            codec.register(Money, encode=repr, decode=Money.parse)

        assert sent(Money, Money(5)) == "5 ct"

    @pytest.mark.parametrize("known", [str, int, list, dict, date, Decimal, type(None), object])
    def test_refuses_types_whose_form_is_fixed(self, known: Any) -> None:
        with pytest.raises(InvalidType, match="the form of this type is fixed"):
            codec.register(known, encode=str, decode=str)

    def test_refuses_other_values(self) -> None:
        with pytest.raises(InvalidType, match=r"register\('Money'\): it must be a class"):
            codec.register("Money", encode=str, decode=str)  # type: ignore[arg-type]
        for functions in ({"encode": "str", "decode": str}, {"encode": str, "decode": None}):
            with pytest.raises(InvalidType, match=r"Anything\): (en|de)code=.* must be a function"):
                codec.register(Anything, **functions)  # type: ignore[arg-type]
