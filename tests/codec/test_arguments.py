import dataclasses
import enum
import json
import math
import sys
import zoneinfo
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from functools import wraps
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pytest
from django.db.models import IntegerChoices, TextChoices
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue.codec.arguments import PAYLOAD_LIMIT, RESULT_LIMIT, Codec
from pgqueue.codec.encoding import Hint
from pgqueue.codec.json_text import from_json
from pgqueue.exceptions import (
    InvalidArgument,
    InvalidArguments,
    InvalidProgress,
    InvalidResult,
    PayloadTooLarge,
    UnreadablePayload,
)

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


class Color(TextChoices):
    RED = "red"
    BLUE = "blue"


class Size(IntegerChoices):
    SMALL = 1
    LARGE = 2


class Plan(enum.Enum):
    FREE = (0, "free")
    PAID = (1, "paid")


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    sku: str
    price: Decimal
    color: Color | None = None


@dataclasses.dataclass
class Order:
    id: UUID
    placed_at: datetime
    items: list[Item]
    parent: "Order | None" = None
    note: Any = None
    total: Decimal = dataclasses.field(init=False, default=Decimal(0))


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclasses.dataclass
class Doubled:
    """Its constructor doesn't take back what it made."""

    amount: int
    checks: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.amount *= 2
        self.seen = True


@dataclasses.dataclass
class Sealed:
    amount: int
    key: dataclasses.InitVar[str]


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Parcel:
    class Kind(enum.Enum):
        BOX = "box"

    kind: "Kind"
    posted_on: "date"


@dataclasses.dataclass
class Tracked(Parcel):
    url: str


class Options(TypedDict, total=False):
    depth: int


class Pair(NamedTuple):
    left: int
    right: int


TYPE_STATEMENTS = """
type Day = Annotated[date, "a day"]
type Tree = list[Tree] | Day
type Lost = Nowhere
"""
TINY = timezone(timedelta(microseconds=1))
OrderId = NewType("OrderId", UUID)


# Machines under load are no reason to fail.
thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# --- Values, and the hints they belong to

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.one_of(
    st.text(characters, max_size=20),
    # What could be taken for something else.
    st.sampled_from(["@", "value", "", "1", "null", "\\u0000", "\\", "2030-01-01", "NaN", "red"]),
)
# Up to what jsonb and Python both hold.
ints = st.integers() | st.sampled_from([10**16, 2**63, -(2**64), 10**4299, 1 - 10**4300])
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [-0.0, 0.0, 1.0, 1e16, -1e16, 1e15, 9999999999999998.0, 1e22, 5e-324, sys.float_info.max]
)
offsets = st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
# ISO 8601 has no word for `fold`.
datetimes = st.datetimes(timezones=st.none() | offsets).map(lambda at: at.replace(fold=0))
times = st.times(timezones=st.none() | offsets).map(lambda at: at.replace(fold=0))
decimals = st.decimals() | st.sampled_from(
    [Decimal(text) for text in ("1E+5", "-0", "0E-20", "1.10", "1E+6000", "sNaN", "-Infinity")]
)
scalars: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: ints,
    float: floats,
    str: texts,
    datetime: datetimes,
    date: st.dates(),
    time: times,
    timedelta: st.timedeltas() | st.sampled_from([timedelta.min, timedelta.max]),
    Decimal: decimals,
    UUID: st.uuids(),
    bytes: st.binary(max_size=40),
}
hashables = st.one_of(*(values for hint, values in scalars.items() if hint is not Decimal))


def containers(values):
    return st.one_of(
        st.lists(values, max_size=4),
        st.dictionaries(texts, values, max_size=4),
        st.lists(values, max_size=4).map(tuple),
        st.sets(hashables, max_size=4),
        st.frozensets(hashables, max_size=4),
    )


anything = st.recursive(st.one_of(*scalars.values()), containers, max_leaves=12)

items = st.builds(Item, texts, decimals, st.none() | st.sampled_from(Color))
orders = st.recursive(
    st.builds(Order, st.uuids(), datetimes, st.lists(items, max_size=2), note=anything),
    lambda orders: st.builds(Order, st.uuids(), datetimes, st.just([]), orders),
    max_leaves=3,
)
points = st.builds(Point, ints, ints)
hinted: dict[Any, st.SearchStrategy[Any]] = {
    **scalars,
    Any: anything,
    object: anything,
    datetime | None: st.none() | datetimes,
    Optional[Decimal]: st.none() | decimals,  # noqa: UP045
    Union[str, datetime]: texts | datetimes,  # noqa: UP007
    datetime | date | time | str: st.one_of(datetimes, st.dates(), texts),
    float | int: floats | ints,
    int | float | Decimal: ints | floats | decimals,
    list[datetime]: st.lists(datetimes, max_size=3),
    list: st.lists(anything, max_size=3),
    dict[str, Decimal]: st.dictionaries(texts, decimals, max_size=3),
    dict[str, list[UUID]]: st.dictionaries(texts, st.lists(st.uuids(), max_size=2), max_size=3),
    set[UUID]: st.sets(st.uuids(), max_size=3),
    frozenset[Point]: st.frozensets(points, max_size=3),
    tuple[int, datetime, Item]: st.tuples(ints, datetimes, items),
    tuple[Decimal, ...]: st.lists(decimals, max_size=3).map(tuple),
    tuple[()]: st.just(()),
    list[int] | list[datetime]: st.lists(ints, max_size=2) | st.lists(datetimes, max_size=2),
    tuple[int, ...] | list[int]: st.tuples(ints) | st.lists(ints, max_size=2),
    Sequence[Item]: st.lists(items, max_size=2) | st.tuples(items),
    Iterable[Point]: st.lists(points, max_size=2) | st.frozensets(points, max_size=2),
    Mapping[str, Item]: st.dictionaries(texts, items, max_size=2),
    Annotated[date, "a day"]: st.dates(),
    list[Annotated[date, "a day"]]: st.lists(st.dates(), max_size=2),
    OrderId: st.uuids(),
    Literal["red", 1]: st.sampled_from(["red", 1]),
    Literal[Color.RED] | UUID: st.just(Color.RED) | st.uuids(),
    Color: st.sampled_from(Color),
    Size: st.sampled_from(Size),
    Plan: st.sampled_from(Plan),
    Access: st.sampled_from([Access(0), Access.READ, Access.READ | Access.WRITE]),
    Color | Size | Plan: st.one_of(*(st.sampled_from(each) for each in (Color, Size, Plan))),
    Color | str: st.sampled_from(Color) | texts,
    Item: items,
    Order: orders,
    Point | Item | None: st.one_of(st.none(), points, items),
    Point | dict[str, Any]: points | st.dictionaries(texts, anything, max_size=2),
    Box[int]: st.builds(Box, ints),
    Options: st.fixed_dictionaries({}, optional={"depth": ints}),
    Pair: st.builds(Pair, ints, ints),
    list[Pair]: st.lists(st.builds(Pair, ints, ints), max_size=2),
    TypeVar("S"): anything,
}
any_hint = st.sampled_from(list(hinted))
# A TypedDict refuses dicts with other keys.
any_hint_but_of_keys = any_hint.filter(lambda hint: hint is not Options)


def same(left: Any, right: Any) -> bool:
    """Tell whether both are equal, down to the types and to what `==` takes for equal."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):  # a NamedTuple, too
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        return left == right and sorted(map(repr, left)) == sorted(map(repr, right))
    if dataclasses.is_dataclass(left):
        return all(
            same(getattr(left, field.name), getattr(right, field.name))
            for field in dataclasses.fields(left)
        )
    return repr(left) == repr(right)


def codec_of(hint: Any) -> Codec:
    """Return the codec of a task that takes a value of this hint, and returns it."""

    def task(value):
        return value

    task.__annotations__ = {"value": hint, "return": hint}
    return Codec(task)


def sent(hint: Any, value: Any) -> Any:
    """Return the JSON that stands for `value`."""
    return json.loads(codec_of(hint).encode((value,), {}))["args"][0]


def received(hint: Any, plain: Any) -> Any:
    """Return the value that this JSON stands for."""
    args, _ = codec_of(hint).decode(json.dumps({"args": [plain]}))
    return args[0]


def there_and_back(codec: Codec, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    return codec.decode(codec.encode(args, kwargs))


def hint_and_value(hint: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.tuples(st.just(hint), hinted[hint])


class TestValuesComeBack:
    @thorough
    @given(value=anything)
    def test_without_a_hint(self, value):
        args, kwargs = there_and_back(codec_of(Any), value)

        assert same(args, [value])
        assert kwargs == {}

    @thorough
    @given(pair=any_hint.flatmap(hint_and_value))
    def test_under_their_hint(self, pair):
        hint, value = pair

        args, _ = there_and_back(codec_of(hint), value)

        assert same(args, [value])

    @thorough
    @given(hint=any_hint_but_of_keys, value=anything)
    def test_under_a_hint_that_they_do_not_match(self, hint, value):
        args, _ = there_and_back(codec_of(hint), value)

        assert same(args, [value])

    @thorough
    @given(pair=any_hint.flatmap(hint_and_value))
    def test_named_too(self, pair):
        hint, value = pair

        args, kwargs = there_and_back(codec_of(hint), value=value)

        assert args == []
        assert same(kwargs, {"value": value})

    @thorough
    @given(pair=any_hint.flatmap(hint_and_value))
    def test_as_results_too(self, pair):
        hint, value = pair
        codec = codec_of(hint)

        assert same(codec.decode_result(codec.encode_result(value)), value)

    @thorough
    @given(delta=st.timedeltas())
    def test_durations_to_the_microsecond_whatever_the_decimal_context(self, delta):
        codec = codec_of(timedelta)

        with localcontext() as context:
            context.prec = 3
            args, _ = there_and_back(codec, delta)

        assert args == [delta]

    def test_times_in_a_zone_with_their_offset(self):
        paris = zoneinfo.ZoneInfo("Europe/Paris")
        twice = datetime(2025, 10, 26, 2, 30, tzinfo=paris)

        for moment in (twice, twice.replace(fold=1)):
            args, _ = there_and_back(codec_of(datetime), moment)

            assert args[0].isoformat() == moment.isoformat()

    def test_a_user_s_own_at_sign(self):
        for value in ({"@": 1}, {"@": {"@": {}}}, {"@": "datetime", "value": "x"}, {"@@": 1}):
            for hint in (Any, dict[str, Any], Point, datetime):
                assert received(hint, sent(hint, value)) == value

    def test_strings_of_ten_megabytes(self):
        for text in ("x" * 10**7, "é" * (5 * 10**6)):
            args, _ = there_and_back(codec_of(str), text)

            assert args == [text]


class TestPlainJSON:
    """What stands in the table, so that SQL can read it, and write it too."""

    @pytest.mark.parametrize(
        ("hint", "value", "plain"),
        [
            (Any, None, None),
            (Any, [True, 1, 1.5, "é"], [True, 1, 1.5, "é"]),
            (Any, {"a": {"value": 1}}, {"a": {"value": 1}}),
            (datetime, datetime(2030, 1, 2, 3, 4, 5, 6), "2030-01-02T03:04:05.000006"),
            (date, date(2030, 1, 2), "2030-01-02"),
            (time, time(1, 2), "01:02:00"),
            (timedelta, timedelta(days=1, microseconds=5), "86400.000005"),
            (timedelta, timedelta(microseconds=-1), "-0.000001"),
            (Decimal, Decimal("1.10"), "1.10"),
            (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (bytes, b"\x00\xff", "AP8="),
            (set[int], {1}, [1]),
            (tuple[date, ...], (date(2030, 1, 2),) * 3, ["2030-01-02"] * 3),
            (tuple[int, date], (1, date(2030, 1, 2)), [1, "2030-01-02"]),
            (Color, Color.RED, "red"),
            (Size, Size.LARGE, 2),
            (Plan, Plan.PAID, "PAID"),
            (Access, Access.READ | Access.WRITE, 3),
            (Item, Item("a", Decimal(1)), {"sku": "a", "price": "1", "color": None}),
            (datetime | None, None, None),
            (UUID | None, UUID(int=0), str(UUID(int=0))),
            (OrderId, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (UUID | str, "plain", "plain"),
            (float, 1.5, 1.5),
            (Any, 9999999999999998.0, 9999999999999998.0),
        ],
    )
    def test_stands_for_what_the_hint_says(self, hint, value, plain):
        assert sent(hint, value) == plain
        assert same(received(hint, plain), value)

    @pytest.mark.parametrize(
        ("hint", "value", "tag", "plain"),
        [
            (Any, datetime(2030, 1, 2), "datetime", "2030-01-02T00:00:00"),
            (Any, date(2030, 1, 2), "date", "2030-01-02"),
            (Any, Decimal("1E+5"), "Decimal", "1E+5"),
            (Any, (1, 2), "tuple", [1, 2]),
            (Any, {1}, "set", [1]),
            (Any, {"@": 1}, "dict", {"@": 1}),
            (Any, 1e16, "float", "1e+16"),
            (Any, -0.0, "float", "-0.0"),
            (datetime, "2030-01-02", "str", "2030-01-02"),
            (float, 1, "int", 1),
            (Item, {"sku": "a"}, "dict", {"sku": "a"}),
            (UUID | str, UUID(int=0), "UUID", str(UUID(int=0))),
            (Sequence[date], (date(2030, 1, 2),) * 2, "tuple", ["2030-01-02"] * 2),
            (Item | Point, Point(1, 2), f"{__name__}.Point", {"x": 1, "y": 2}),
        ],
    )
    def test_carries_a_tag_where_it_would_be_read_as_something_else(self, hint, value, tag, plain):
        assert sent(hint, value) == {"@": tag, "value": plain}

    @pytest.mark.parametrize(
        ("hint", "plain", "value"),
        [
            (
                datetime,
                "2030-01-02 03:04:05.5+00",
                datetime(2030, 1, 2, 3, 4, 5, 500000, UTC),
            ),
            (datetime, "2030-01-02", datetime(2030, 1, 2)),
            (Decimal, 5, Decimal(5)),
            (Decimal, 1.1, Decimal("1.1")),
            (timedelta, 90, timedelta(seconds=90)),
            (timedelta, 0.25, timedelta(seconds=0.25)),
            (float, 3, 3.0),
            (int, 1.5, 1.5),
            (set[date], ["2030-01-02"], {date(2030, 1, 2)}),
            (Item, {"sku": "a", "price": 2}, Item("a", Decimal(2))),
            (Any, {"@": "set", "value": [1, 1]}, {1}),
        ],
    )
    def test_may_come_from_sql(self, hint, plain, value):
        assert same(received(hint, plain), value)

    def test_gives_every_digit_to_a_decimal(self):
        args, _ = codec_of(Decimal).decode('{"args": [12345678901234567.890123456789]}')

        assert args == [Decimal("12345678901234567.890123456789")]

    def test_may_leave_out_args_or_kwargs(self):
        codec = codec_of(date)

        assert codec.decode("{}") == ([], {})
        assert codec.decode('{"kwargs": {"value": "2030-01-02"}}') == (
            [],
            {"value": date(2030, 1, 2)},
        )

    def test_is_read_in_any_order_and_spacing(self):
        text = ' { "kwargs" : {} , "args" : [ { "value" : [ ] , "@" : "set" } ] } '

        assert codec_of(Any).decode(text) == ([set()], {})

    @pytest.mark.parametrize("convert", [str, str.encode, lambda text: memoryview(text.encode())])
    def test_is_read_from_text_and_bytes(self, convert):
        assert codec_of(Any).decode(convert('{"args": ["é"]}')) == (["é"], {})


def copy_as(cls: type, value: Any) -> Any:
    """Return a copy of a scalar that is of a subclass."""
    if isinstance(value, UUID):
        return cls(int=value.int)
    if isinstance(value, datetime):
        return cls.combine(value.date(), value.timetz())
    if isinstance(value, date | time):
        return cls.fromisoformat(value.isoformat())
    return cls(value)


class TestSubclasses:
    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (mark_safe("<b>"), "<b>"),
            (Color.RED, "red"),
            (Size.LARGE, 2),
            ({Color.RED: Color.BLUE}, {"red": "blue"}),
        ],
    )
    def test_of_str_and_int_are_stored_as_these(self, value, plain):
        assert same(sent(Any, value), plain)

    @pytest.mark.parametrize(
        "value",
        [
            1.5,
            b"x",
            Decimal("1.10"),
            UUID(int=1),
            date(2030, 1, 2),
            time(1, 2),
            datetime(2030, 1, 2, tzinfo=UTC),
        ],
    )
    def test_of_other_scalars_are_stored_as_these(self, value):
        base = type(value)
        twin = copy_as(type("Twin", (base,), {}), value)

        for hint in (Any, base):
            args, _ = there_and_back(codec_of(hint), twin)

            assert same(args, [value])

    def test_that_hold_more_than_comes_back_are_refused(self):
        class Timestamp(datetime):
            def isoformat(self, sep="T", timespec="auto"):
                return super().isoformat(sep, "microseconds") + "789"

        with pytest.raises(InvalidArgument, match=r"Timestamp.* come back as a datetime"):
            sent(datetime, Timestamp(2030, 1, 2))

    @pytest.mark.parametrize(
        ("value", "base"),
        [
            (OrderedDict(a=1), "dict"),
            (defaultdict(list), "dict"),
            (type("Duration", (timedelta,), {})(1), "timedelta"),
        ],
    )
    def test_of_containers_and_durations_are_refused(self, value, base):
        with pytest.raises(InvalidArgument, match=f"would come back as a {base}: pass one"):
            sent(Any, value)

    @pytest.mark.parametrize("value", [Pair(1, 2), namedtuple("P", "x")(1)])
    def test_of_tuples_with_names_need_their_hint(self, value):
        for hint in (Any, tuple, tuple[int, ...]):
            with pytest.raises(InvalidArgument, match="which needs that class as its type hint"):
                sent(hint, value)

    def test_of_a_hinted_dataclass_are_refused(self):
        @dataclasses.dataclass(frozen=True)
        class Point3(Point):
            z: int = 0

        with pytest.raises(InvalidArgument, match="Point3, which needs that class as its type"):
            sent(Point, Point3(1, 2, 3))


class TestDataclasses:
    def test_keep_what_their_constructor_does_not_take_or_changes(self):
        doubled = Doubled(2)
        doubled.checks = 7

        args, _ = there_and_back(codec_of(Doubled), doubled)

        assert (args[0].amount, args[0].checks, args[0].seen) == (4, 7, True)

    def test_take_the_defaults_of_fields_added_since(self):
        assert received(Item, {"sku": "a", "price": "1"}) == Item("a", Decimal(1), None)

    @pytest.mark.parametrize(
        ("plain", "reason"),
        [
            ({"x": 1}, "missing 1 required positional argument: 'y'"),
            ({"x": 1, "y": 2, "z": 3}, "Point has no field 'z'"),
        ],
    )
    def test_of_other_fields_are_unreadable(self, plain, reason):
        with pytest.raises(UnreadablePayload, match=reason):
            received(Point, plain)

    def test_that_need_more_than_their_fields_are_refused(self):
        with pytest.raises(InvalidArgument, match=r"can't be built from its fields: .*'key'"):
            sent(Sealed, Sealed(1, "secret"))


class TestWhatCannotBeStored:
    @pytest.mark.parametrize(
        ("hint", "value", "message"),
        [
            (Any, math.nan, "argument 'value' of .*task is nan; JSON has no such number: pass"),
            (Decimal, math.inf, "is inf; JSON has no such number: pass"),
            (Any, [1, {"a b": (0, -math.inf)}], r"task: \[1\]\['a b'\]\[1\] is -inf"),
            (Any, "a\x00b", r"has a character \\x00, which PostgreSQL can't store: pass bytes"),
            (Any, "a\ud800b", r"has '\\ud800', half of a surrogate pair.*: pass bytes"),
            (Any, {"a": {"\x00": 1}}, r"task: \['a'\] has the key '\\x00', which has a character"),
            (Any, {"\udfff": 1}, r"has the key '\\udfff', which has .* surrogate"),
            (Any, {1: 2}, "has the key 1; JSON knows only str: pass a list of pairs"),
            (dict[int, str], {1: "a"}, "has the key 1; JSON knows only str"),
            (Any, {None: 2}, "has the key None"),
            pytest.param(Any, 10**4300, "has more than 4300 digits", id="long"),
            pytest.param(Any, [-(10**4300)], r"\[0\] has more than 4300 digits", id="negative"),
            (Any, Point(1, 2), "Point, which needs that class as its type hint"),
            (list, [Point(1, 2)], r"\[0\] is a .*Point, which needs that class"),
            (Any, Plan.FREE, "Plan, which needs that class as its type hint"),
            (Any, object(), "is a object, which JSON can't say: pass text, numbers"),
            (Any, 1j, "is a complex, which JSON can't say"),
            (Any, Point, "is a type, which JSON can't say"),
            (time, time(1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")), "offset is None"),
            (datetime, datetime(2030, 1, 2, tzinfo=TINY), "offset is 0:00:00.000001: pass"),
        ],
    )
    def test_is_named_with_the_reason_and_a_way_out(self, hint, value, message):
        with pytest.raises(InvalidArgument, match=message):
            sent(hint, value)

    def test_is_found_in_dataclasses_and_lists(self):
        order = Order(UUID(int=0), datetime(2030, 1, 2), [Item("a", Decimal(1))])
        order.items.append(Item("b", math.nan))

        with pytest.raises(InvalidArgument) as caught:
            sent(Order, order)

        assert str(caught.value) == (
            f"argument 'value' of {__name__}.codec_of.<locals>.task: "
            "items[1].price is nan; JSON has no such number: pass None, or a Decimal."
        )

    def test_is_named_among_several_arguments(self):
        def task(first, *rest, option=None, **others): ...

        codec = Codec(task)
        for args, kwargs, name in [
            ((math.nan,), {}, "'first'"),
            ((1, 2, math.nan), {}, r"'rest\[1\]'"),
            ((1,), {"option": math.nan}, "'option'"),
            ((1,), {"more": math.nan}, "'more'"),
            ((1,), {"\x00": 1}, r"'\\x00'"),
        ]:
            with pytest.raises(InvalidArgument, match=f"argument {name} of"):
                codec.encode(args, kwargs)

    def test_is_what_contains_itself(self):
        loop: list[Any] = []
        loop.append({"again": loop})

        with pytest.raises(InvalidArgument, match="nested too deeply, or contains itself"):
            sent(Any, loop)

    def test_is_a_number_longer_than_this_process_allows(self):
        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(640)
        try:
            with pytest.raises(InvalidArgument, match=r"'value'.*640 digits"):
                codec_of(Any).encode((10**1000,), {})
        finally:
            sys.set_int_max_str_digits(limit)

    def test_is_a_number_longer_than_other_processes_allow(self):
        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            with pytest.raises(InvalidArgument, match="more than 4300 digits"):
                codec_of(Any).encode((10**5000,), {})
        finally:
            sys.set_int_max_str_digits(limit)

    def test_is_more_than_sixteen_mebibytes(self):
        room = PAYLOAD_LIMIT - len('{"args":[""],"kwargs":{}}')

        assert len(codec_of(Any).encode(("x" * room,), {})) == PAYLOAD_LIMIT
        for text in ("x" * (room + 1), "é" * (room // 2 + 1)):
            with pytest.raises(PayloadTooLarge, match="more than 16,777,216: store the data"):
                codec_of(Any).encode((text,), {})

    def test_can_be_caught_as_one_error(self):
        assert issubclass(InvalidArgument, InvalidArguments)
        assert issubclass(PayloadTooLarge, InvalidArguments)

    @pytest.mark.parametrize("wrap", [list, tuple])
    def test_never_passes_only_to_be_too_deep_for_the_worker(self, wrap):
        text, refusal = deepest(lambda value: wrap([value]))

        # It may stand deeper in the stack than who enqueued.
        args, _ = deeper(200, lambda: codec_of(Any).decode(text))

        assert type(args[0]) is wrap
        assert "is nested too deeply" in refusal


def deepest(wrap: Any) -> tuple[str, str]:
    """Return the payload of the deepest value that is accepted, and why no deeper one is."""
    codec, value, text = codec_of(Any), 1, ""
    while True:
        try:
            text = codec.encode((value,), {})
        except InvalidArgument as error:
            return text, str(error)
        value = wrap(value)


def deeper(frames: int, call: Any) -> Any:
    return deeper(frames - 1, call) if frames else call()


class TestResults:
    def test_that_cannot_be_stored_are_named(self):
        with pytest.raises(InvalidResult, match=r"the result of .*task: \[0\] is nan; JSON has"):
            codec_of(Any).encode_result([math.nan])

    def test_that_contain_themselves_are_refused(self):
        loop: list[Any] = []
        loop.append(loop)

        with pytest.raises(InvalidResult, match="nested too deeply, or contains itself"):
            codec_of(Any).encode_result(loop)

    def test_is_noted_as_it_is_returned_whatever_the_function_returns(self) -> None:
        noted = {"day": date(2030, 1, 2), "done": {1, 2}}
        codec = codec_of(Any)

        assert same(codec.decode_progress(codec.encode_progress(noted)), noted)
        with pytest.raises(InvalidProgress, match=r"the progress of .*task: \['step'\] is a .*, w"):
            codec.encode_progress({"step": object()})
        with pytest.raises(InvalidProgress, match=r"the progress of .* more than 65,536"):
            codec.encode_progress("x" * RESULT_LIMIT)

    def test_of_more_than_64_kibibytes_are_refused(self):
        room = RESULT_LIMIT - len('""')

        assert len(codec_of(Any).encode_result("x" * room)) == RESULT_LIMIT
        with pytest.raises(InvalidResult, match=r"the result of .* more than 65,536"):
            codec_of(Any).encode_result("x" * (room + 1))

    def test_are_plain_under_the_return_hint(self):
        def task() -> date: ...  # type: ignore[empty-body]

        assert Codec(task).encode_result(date(2030, 1, 2)) == '"2030-01-02"'
        assert Codec(task).decode_result('"2030-01-02"') == date(2030, 1, 2)

    @pytest.mark.parametrize("text", ["", "{", '"tomorrow"', '{"@": "nothing"}'])
    def test_that_were_not_written_so_are_unreadable(self, text):
        with pytest.raises(UnreadablePayload, match="the result of"):
            codec_of(date).decode_result(text)


class TestCalls:
    @pytest.mark.parametrize(
        ("args", "kwargs", "reason"),
        [
            ((), {}, "missing a required argument: 'a'"),
            ((1, 2, 3), {}, "too many positional arguments"),
            ((1,), {"a": 2}, "multiple values for argument 'a'"),
            ((1,), {"c": 2}, "unexpected keyword argument 'c'"),
        ],
    )
    def test_that_do_not_fit_the_function_are_refused(self, args, kwargs, reason):
        def task(a: int, b: int = 0): ...

        with pytest.raises(InvalidArguments, match=f"a call of .*task doesn't fit: .*{reason}"):
            Codec(task).encode(args, kwargs)

    def test_that_lack_a_named_argument_are_refused(self):
        def task(a: int, b: int = 0, *, c: int): ...

        for args in ((1,), (1, 2)):
            with pytest.raises(InvalidArguments, match=r"missing a required .*argument: 'c'"):
                Codec(task).encode(args, {})

    def test_are_checked_without_the_context(self):
        def task(context, when: date): ...

        codec = Codec(task, skip_first=True)

        assert codec.encode((date(2030, 1, 2),), {}) == '{"args":["2030-01-02"],"kwargs":{}}'
        assert there_and_back(codec, when=date(2030, 1, 2)) == ([], {"when": date(2030, 1, 2)})
        with pytest.raises(InvalidArguments):
            codec.encode((None, date(2030, 1, 2)), {})

    def test_read_each_argument_by_its_own_hint(self):
        def task(a: date, /, b: UUID, *rest: Decimal, c: time = time(), **others: timedelta): ...

        args = [date(2030, 1, 2), UUID(int=1), Decimal("1.0"), Decimal("2.0")]
        kwargs = {"c": time(1), "a": timedelta(1), "more": timedelta(2)}

        text = Codec(task).encode(args, kwargs)

        assert "@" not in text
        assert Codec(task).decode(text) == (args, kwargs)

    def test_read_named_arguments_beside_plain_ones(self):
        def task(a: int, b: date | None = None): ...

        args, kwargs = there_and_back(Codec(task), 1, b=date(2030, 1, 2))

        assert (args, kwargs) == ([1], {"b": date(2030, 1, 2)})

    def test_leave_defaults_to_the_function(self):
        def task(a: int = 1, b: int = 2): ...

        assert Codec(task).encode((), {}) == '{"args":[],"kwargs":{}}'

    def test_of_short_plain_arguments_are_still_looked_through(self):
        codec = codec_of(str)

        for text in ("é", "👍", "\\u0000", "\\ud800", '"', "\x1f"):
            assert there_and_back(codec, text) == ([text], {})
        for text in ("\x00", "\ud800", "\udc00"):
            with pytest.raises(InvalidArgument):
                codec.encode((text,), {})

    def test_of_a_decorated_function_use_the_hints_inside(self):
        def inside(when: date): ...

        @wraps(inside, assigned=())
        def outside(*args, **kwargs): ...

        assert Codec(outside).encode((date(2030, 1, 2),), {}) == (
            '{"args":["2030-01-02"],"kwargs":{}}'
        )


class TestHints:
    def test_may_be_strings(self):
        def task(when: "date", items: "list[Item]"): ...

        item = Item("a", Decimal(1))
        args, _ = there_and_back(Codec(task), date(2030, 1, 2), [item])

        assert args == [date(2030, 1, 2), [item]]

    def test_that_do_not_resolve_leave_the_others_their_meaning(self):
        def task(order: "Missing", when: "date", broken: "1 +" = None): ...  # noqa: F722

        assert Codec(task).encode((1, date(2030, 1, 2)), {}) == (
            '{"args":[1,"2030-01-02"],"kwargs":{}}'
        )

    def test_in_a_dataclass_that_do_not_resolve_leave_the_others_their_meaning(self):
        @dataclasses.dataclass
        class Note:
            order: "Missing"
            date: "date | None" = None

        assert sent(Note, Note(1, date(2030, 1, 2))) == {"order": 1, "date": "2030-01-02"}

    def test_in_a_dataclass_may_name_its_own_classes_and_be_inherited(self):
        tracked = Tracked(Parcel.Kind.BOX, date(2030, 1, 2), "https://…")

        assert sent(Tracked, tracked) == {
            "kind": "box",
            "posted_on": "2030-01-02",
            "url": "https://…",
        }

    def test_are_looked_at_only_when_needed(self):
        def task(later: "Later") -> "Later": ...  # noqa: F821

        codec = Codec(task)
        globals()["Later"] = Point
        try:
            assert there_and_back(codec, Point(1, 2)) == ([Point(1, 2)], {})
        finally:
            del globals()["Later"]

    def test_that_are_no_types_are_ignored(self):
        def task(a: 5, b: [int], c: {1: 1}, d: "Literal"): ...

        assert there_and_back(Codec(task), 1, [2], {"c": 3}, (4,)) == ([1, [2], {"c": 3}, (4,)], {})

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="type statements came with 3.12")
    def test_may_be_named_by_a_type_statement(self):
        scope: dict[str, Any] = {"date": date, "Annotated": Annotated}
        exec(TYPE_STATEMENTS, scope)  # noqa: S102

        assert sent(scope["Tree"], [[date(2030, 1, 2)]]) == [["2030-01-02"]]
        assert sent(scope["Lost"], 1) == 1


class TestUnreadablePayloads:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "nonsense",
            "[1]",
            "null",
            '"args"',
            '{"args": {}, "kwargs": {}}',
            '{"args": [], "kwargs": []}',
            '{"args": [], "kwargs": {}, "more": 1}',
            '{"args": [NaN]}',
            '{"args": [' + "9" * 5000 + "]}",
            '{"args": ' + "[" * 100_000 + "]" * 100_000 + "}",
            '{"args": ['
            + "[" * 700
            + "]" * 700
            + "]}",  # parsed, but too deep to be looked through
            '{"args": [{"@": "datetime"}]}',
            '{"args": [{"@": "nothing", "value": 1}]}',
            '{"args": [{"@": ["set"], "value": 1}]}',
            '{"args": [{"@": "set", "value": 1}]}',
            '{"args": [{"@": "set", "value": "abc"}]}',
            '{"args": [{"@": "set", "value": [[]]}]}',
            '{"args": [{"@": "dict", "value": 1}]}',
            '{"args": [{"@": "set", "value": [], "more": 1}]}',
            b"\xff",
        ],
        ids=lambda text: repr(text)[:40],
    )
    def test_are_told_as_such(self, text):
        with pytest.raises(UnreadablePayload, match=r"of .*\.task"):
            codec_of(Any).decode(text)

    @pytest.mark.parametrize(
        ("hint", "plain"),
        [
            (datetime, "tomorrow"),
            (date, "2030-13-01"),
            (Decimal, "many"),
            (timedelta, "1 day"),
            (timedelta, "1e99999999"),
            (timedelta, 10**20),
            pytest.param(float, 10**400, id="float"),
            (UUID, "1"),
            (bytes, "?"),
            (Color, "green"),
            (Plan, "LOST"),
        ],
    )
    def test_name_the_argument(self, hint, plain):
        with pytest.raises(UnreadablePayload, match=r"argument 'value' of .* can't be read from"):
            received(hint, plain)

    @thorough
    @given(
        hint=any_hint,
        plain=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
            lambda plain: st.one_of(
                st.lists(plain, max_size=3),
                st.dictionaries(texts, plain, max_size=3),
                st.fixed_dictionaries(
                    {"@": st.sampled_from(["set", "datetime", "int", "Decimal"]), "value": plain}
                ),
            ),
            max_leaves=6,
        ),
    )
    def test_raise_nothing_else(self, hint, plain):
        with suppress(UnreadablePayload):
            received(hint, plain)


class TestLazyScalars:
    @pytest.mark.parametrize("value", [1, 1.5, "a", b"a", date(2030, 1, 1), timedelta(1)])
    def test_are_refused(self, value):
        with pytest.raises(InvalidArgument, match=f"is a lazy .*{type(value).__name__}: pass"):
            sent(Any, SimpleLazyObject(lambda: value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("2.50", 2.5),
        ("1e-7", 1e-7),
        ("12345678901234567890.123", Decimal("12345678901234567890.123")),
        ("0.1000000000000000055", Decimal("0.1000000000000000055")),
        ("1e400", Decimal("1e400")),
        ("1e-400", Decimal("1e-400")),
    ],
)
def test_a_number_without_a_hint_keeps_its_digits(text: str, value: float | Decimal) -> None:
    unhinted = Hint().read(from_json(text))
    as_float = Hint(float).read(from_json(text))

    assert (unhinted, type(unhinted)) == (value, type(value))
    assert (as_float, type(as_float)) == (float(text), float)
