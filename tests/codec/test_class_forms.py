"""Classes of pydantic, attrs and msgspec, NamedTuples and TypedDicts, by their type hint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import attrs
import msgspec
import pydantic
import pytest
import typing_extensions

import pgqueue
from pgqueue.codec.arguments import Codec
from pgqueue.codec.encoding import ExactHint, PayloadHint
from pgqueue.codec.json_text import from_json
from pgqueue.exceptions import InvalidArgument, InvalidResult, NewerPayload, UnreadablePayload
from tests.class_jobs import (
    DAY,
    Attrs,
    Basket,
    Dict,
    Model,
    Money,
    Struct,
    Tuple,
    basket,
    model,
)
from tests.codec.test_arguments import codec_of, received, sent, there_and_back

FIELDS: dict[str, Any] = {"price": "1.10", "note": None, "child": None}
PLAIN: dict[Any, tuple[Any, Any]] = {
    Model: (model(), {"amount": 1, "day": "2030-01-02", **FIELDS}),
    Attrs: (Attrs(1, DAY), {"amount": 1, "_day": "2030-01-02", **FIELDS, "checks": 0}),
    Struct: (
        Struct(1, DAY),
        {"type": "struct", "amount": 1, "theDay": "2030-01-02", **FIELDS},
    ),
    Tuple: (Tuple(1, DAY), {"amount": 1, "day": "2030-01-02", **FIELDS}),
    Dict: ({"amount": 1, "day": DAY}, {"amount": 1, "day": "2030-01-02"}),
}
"""A value of each class, and its JSON under the hint."""
KINDS = [*PLAIN]
OF_CLASSES = [kind for kind in KINDS if kind is not Dict]
CHECKED = [Model, Attrs, Struct]


class Typed(TypedDict, total=False):
    name: Required[str]
    size: int


class Named(TypedDict):
    title: str


class Extended(typing_extensions.TypedDict):
    day: Annotated[typing_extensions.NotRequired[type(DAY)], "a day"]  # type: ignore[valid-type]


class Listed(pydantic.RootModel[list[int]]): ...


class Secret(pydantic.BaseModel):
    password: pydantic.SecretStr


class Lenient(pydantic.BaseModel):
    amount: int = 0
    weight: float = 0


class Row(msgspec.Struct, array_like=True):
    name: str
    size: int


@attrs.frozen
class Split:
    """Its converter does not take its own result."""

    words: list[str] = attrs.field(converter=lambda text: text.split(","))


@attrs.define
class Counted:
    amount: int
    total: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.total = 2 * self.amount


class TestAValue:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_comes_back_under_its_hint_and_is_plain_json(self, kind: Any) -> None:
        value, plain = PLAIN[kind]

        back = received(kind, plain)

        assert sent(kind, value) == plain
        assert back == value
        assert type(back) is type(value)

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_comes_back_from_a_list_a_dict_an_optional_and_as_a_result(self, kind: Any) -> None:
        value, plain = PLAIN[kind]

        assert sent(list[kind] | None, [value]) == [plain]
        assert received(list[kind] | None, [plain]) == [value]
        assert there_and_back(codec_of(dict[str, kind]), {"a": value}) == ([{"a": value}], {})
        assert there_and_back(codec_of(kind | None), None) == ([None], {})
        assert codec_of(kind).decode_result(codec_of(kind).encode_result(value)) == value

    def test_comes_back_in_a_dataclass(self) -> None:
        args, _ = there_and_back(codec_of(Basket), basket())

        assert args == [basket()]
        assert {name: type(each) for name, each in vars(args[0]).items()} == {
            "model": Model,
            "attrs": list,
            "struct": Struct,
            "tuple": dict,
            "dict": dict,
            "money": Money,
        }

    @pytest.mark.parametrize("note", [{"@": "result", "value": 1}, {"a": [1.5, None, "é"]}, 1e16])
    @pytest.mark.parametrize("kind", [Model, Struct])
    def test_keeps_json_in_it_that_looks_like_a_tag(self, kind: Any, note: Any) -> None:
        value = model(note=note) if kind is Model else Struct(1, DAY, note=note)

        assert there_and_back(codec_of(kind), value) == ([value], {})
        assert sent(kind, value)["note"] != {"@": "result", "value": 1}

    @pytest.mark.parametrize("kind", OF_CLASSES, ids=lambda kind: kind.__name__)
    def test_needs_the_hint(self, kind: Any) -> None:
        value, _ = PLAIN[kind]

        for hint in (Any, int, dict, tuple):
            with pytest.raises(InvalidArgument, match=f"is a .*{kind.__name__}, which needs that"):
                sent(hint, value)

    @pytest.mark.parametrize("kind", OF_CLASSES, ids=lambda kind: kind.__name__)
    def test_of_another_type_comes_back_as_it_is(self, kind: Any) -> None:
        for value in ({"amount": 1}, [1], 1, "a", None, DAY):
            assert there_and_back(codec_of(kind), value) == ([value], {})

    @pytest.mark.parametrize("kind", OF_CLASSES, ids=lambda kind: kind.__name__)
    def test_of_a_subclass_is_refused(self, kind: Any) -> None:
        value, _ = PLAIN[kind]
        other = type("Other", (kind,), {"__module__": __name__})
        twin = other(*value) if kind is Tuple else other(**arguments(kind))

        with pytest.raises(InvalidArgument, match="Other, which needs that class"):
            sent(kind, twin)

    def test_is_tagged_where_another_class_of_the_hint_would_read_it(self) -> None:
        plain = PLAIN[Tuple][1]

        assert sent(Model | Tuple, Tuple(1, DAY)) == {"@": "tests.class_jobs.Tuple", "value": plain}
        assert there_and_back(codec_of(Model | Tuple), Tuple(1, DAY)) == ([Tuple(1, DAY)], {})

    @pytest.mark.parametrize(
        ("value", "plain"), [(Listed([1, 2]), [1, 2]), (Row("a", 1), ["a", 1])]
    )
    def test_that_is_no_object_in_json_comes_back(self, value: Any, plain: Any) -> None:
        assert sent(type(value), value) == plain
        assert received(type(value), plain) == value

    def test_of_a_tuple_without_type_hints_comes_back(self) -> None:
        pair = namedtuple("pair", "left right")

        assert there_and_back(codec_of(pair), pair(1, DAY)) == ([pair(1, DAY)], {})

    def test_of_attrs_keeps_what_its_constructor_changes(self) -> None:
        counted = Counted(1)
        counted.total = 7

        assert there_and_back(codec_of(Counted), counted) == ([counted], {})


def arguments(kind: Any) -> dict[str, Any]:
    return {
        Model: {"Amount": 1, "day": DAY},
        Attrs: {"amount": 1, "day": DAY},
        Struct: {"amount": 1, "the_day": DAY},
    }[kind]


def damaged(kind: Any) -> Any:
    """Return an instance that its class would not make."""
    value = model() if kind is Model else kind(1, DAY)
    value.amount = "few" if kind is Struct else -1
    return value


class TestAnInvalidValue:
    @pytest.mark.parametrize(
        ("kind", "reason"),
        [
            (Model, "amount: Input should be greater than 0"),
            (Attrs, "'amount' must be > 0: -1"),
            (Struct, r"Expected `int`, got `str` - at `\$.amount`"),
        ],
        ids=lambda each: getattr(each, "__name__", ""),
    )
    def test_is_refused_before_it_is_stored(self, kind: Any, reason: str) -> None:
        place = rf"argument 'value' of .*\.task: \[0\] is no valid .*\.{kind.__name__}: "
        with pytest.raises(InvalidArgument, match=place + f".*{reason}"):
            sent(list[kind], [damaged(kind)])
        with pytest.raises(InvalidResult, match=rf"the result of .*\.task is no .*{reason}"):
            codec_of(kind).encode_result(damaged(kind))

    @pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.__name__)
    def test_in_the_payload_is_unreadable(self, kind: Any) -> None:
        _, plain = PLAIN[kind]
        wrong = {**plain, "amount": "few" if kind is Struct else -1}

        with pytest.raises(UnreadablePayload, match=r"argument 'value' of .*amount"):
            received(kind, wrong)

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_with_a_field_that_newer_code_knows_is_newer(self, kind: Any) -> None:
        _, plain = PLAIN[kind]

        with pytest.raises(NewerPayload, match=r"argument 'value' of .*"):
            received(kind, {**plain, "color": "red"})

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_that_lacks_a_field_is_unreadable(self, kind: Any) -> None:
        _, plain = PLAIN[kind]
        rest = {name: each for name, each in plain.items() if name != "amount"}

        with pytest.raises(UnreadablePayload, match=r"argument 'value' of .*") as raised:
            received(kind, rest)
        assert not isinstance(raised.value, NewerPayload)

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (Secret(password="x"), "whose 'password' would come back as another value"),
            (Lenient(weight=float("nan")), "is nan; JSON has no such number"),
            (Lenient.model_construct(amount="5"), "whose 'amount' would come back"),
            (Struct(1, DAY, note=object()), "can't be encoded: TypeError: Encoding objects"),
            (Split("a,b"), "is no valid .*Split: AttributeError"),
        ],
    )
    def test_is_one_that_would_not_come_back(self, value: Any, reason: str) -> None:
        with pytest.raises(InvalidArgument, match=reason):
            sent(type(value), value)

    def test_is_not_quoted_by_pydantic(self) -> None:
        hidden = model()
        hidden.day = "the-cellar-key"  # type: ignore[assignment]

        with pytest.raises(InvalidArgument) as raised:
            sent(Model, hidden)
        assert "day: Input should be a valid date" in str(raised.value)
        assert "cellar" not in str(raised.value)


class TestATypedDict:
    @pytest.mark.parametrize(
        ("hint", "value", "reason"),
        [
            (Typed, {"size": 1}, "lacks the key 'name' of .*Typed"),
            (Typed, {"name": "a", "color": 1}, "has the key 'color', which .*Typed lacks"),
            (Typed, {"name": "a", 1: 2}, "has the key 1, which .*Typed lacks"),
            (Typed | Named, {}, "lacks the key 'name' of .*Typed; lacks the key 'title' of .*Nam"),
            (list[Named], [{}], r"\[0\] lacks the key 'title'"),
            (Dict, {"amount": 1, "day": DAY, "child": {}}, r"\['child'\] lacks the key"),
        ],
    )
    def test_is_checked_by_its_keys(self, hint: Any, value: Any, reason: str) -> None:
        with pytest.raises(InvalidArgument, match=f"argument 'value' of .*{reason}"):
            sent(hint, value)

    @pytest.mark.parametrize("value", [{"name": "a"}, {"name": "a", "size": 1}, {"title": "b"}])
    def test_may_be_one_of_several(self, value: Any) -> None:
        assert sent(Typed | Named | None, value) == value
        assert there_and_back(codec_of(Typed | Named | None), value) == ([value], {})

    def test_beside_any_dict_refuses_none(self) -> None:
        for value in ({"size": 1}, {"name": "a"}, {"a": DAY}):
            assert there_and_back(codec_of(Typed | dict[str, Any]), value) == ([value], {})

    def test_of_typing_extensions_is_one_too(self) -> None:
        for value in ({}, {"day": DAY}):
            assert there_and_back(codec_of(Extended), value) == ([value], {})
        assert sent(Extended, {"day": DAY}) == {"day": "2030-01-02"}

    def test_leaves_other_values_as_they_are(self) -> None:
        for value in ([1], 1, "a", None):
            assert there_and_back(codec_of(Typed), value) == ([value], {})


class TestLaterCode:
    """The results of durable steps, which later code may read by another hint."""

    @pytest.mark.parametrize("new", KINDS, ids=lambda kind: kind.__name__)
    @pytest.mark.parametrize("old", [*KINDS, Lenient, Money], ids=lambda kind: kind.__name__)
    def test_refuses_a_value_of_another_class(self, old: Any, new: Any) -> None:
        value = {Lenient: Lenient(amount=1), Money: Money(1)}.get(old) or PLAIN[old][0]
        text = ExactHint(old).dump(value)

        if old is new:
            assert ExactHint(new).read(from_json(text)) == value
        else:
            with pytest.raises(ValueError):
                ExactHint(new).read(from_json(text))

    @pytest.mark.parametrize("kind", [*OF_CLASSES, Money], ids=lambda kind: kind.__name__)
    @pytest.mark.parametrize("old", [dict, list, int, str, Any])
    def test_refuses_plain_json_for_a_class(self, kind: Any, old: Any) -> None:
        plain = {**PLAIN, Money: (Money(1), "1 ct")}[kind][1]

        for value in (plain, {"amount": 1}, [1], 1, "1 ct"):
            stored = ExactHint(old).dump(value)
            with pytest.raises((ValueError, AssertionError)):
                assert type(ExactHint(kind).read(from_json(stored))) is not kind
                raise ValueError("it came back as it was")

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_of_a_signal_takes_plain_json_too(self, kind: Any) -> None:
        value, plain = PLAIN[kind]

        assert PayloadHint(kind).read(plain) == value


def test_no_package_is_imported_that_the_project_does_not_use() -> None:
    script = """
        import sys
        from dataclasses import dataclass
        from typing import NamedTuple, TypedDict
        from pgqueue.codec import register
        from pgqueue.codec.arguments import Codec

        class Pair(NamedTuple):
            left: int

        class Keys(TypedDict):
            left: int

        class Other: ...

        @dataclass
        class Item:
            pair: Pair

        def task(a: Item, b: Keys, c: Other, d): ...

        codec = Codec(task)
        args = [Item(Pair(1)), {"left": 1}, 2, 3]
        assert codec.decode(codec.encode(args, {})) == (args, {})
        try:
            codec.encode([*args[:3], Other()], {})
        except TypeError as error:
            assert "which JSON can't say" in str(error)
        assert not {"attr", "attrs", "msgspec", "pydantic", "django"} & set(sys.modules)
    """
    root = Path(pgqueue.__file__).parent.parent
    lines = script.splitlines()
    source = "\n".join(line[8:] for line in lines)
    done = subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_rows_of_a_file_are_read_by_the_class() -> None:
    def import_row(value: Model) -> None: ...

    text = json.dumps({"kwargs": {"value": json.dumps(PLAIN[Model][1])}})

    assert Codec(import_row).read_row(text, is_typed=False) == {"value": model()}
