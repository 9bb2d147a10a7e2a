"""Tasks whose arguments are instances of classes with fields, and of a registered type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import pydantic

from pgqueue import Event, codec, task
from pgqueue.durable import DurableContext


class Model(pydantic.BaseModel):
    """A model of pydantic. It is as strict as one can be."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid", validate_assignment=False)

    amount: int = pydantic.Field(alias="Amount", gt=0)
    day: date
    price: Decimal = Decimal("1.10")
    note: Any = None
    child: Model | None = None

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.amount


@attrs.define
class Attrs:
    """A class of attrs, with a private attribute, and one that its constructor does not take."""

    amount: int = attrs.field(validator=attrs.validators.gt(0), on_setattr=attrs.setters.NO_OP)
    _day: date
    price: Decimal = attrs.field(default=Decimal("1.10"), converter=Decimal)
    note: Any = None
    child: Attrs | None = None
    checks: int = attrs.field(init=False, default=0)


class Struct(msgspec.Struct, forbid_unknown_fields=True, tag="struct", rename="camel"):
    """A Struct of msgspec."""

    amount: int
    the_day: date
    price: Decimal = Decimal("1.10")
    note: Any = None
    child: Struct | None = None


class Tuple(NamedTuple):
    """A NamedTuple."""

    amount: int
    day: date
    price: Decimal = Decimal("1.10")
    note: Any = None
    child: Tuple | None = None


class Dict(TypedDict):
    """A TypedDict."""

    amount: int
    day: date
    price: NotRequired[Decimal]
    note: NotRequired[Any]
    child: NotRequired[Dict]


class Money:
    """A type of a project."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    def __hash__(self) -> int:
        return self.cents

    def __str__(self) -> str:
        return f"{self.cents} ct"

    @classmethod
    def parse(cls, text: str) -> Money:
        number, unit = text.split()
        if unit != "ct":
            raise ValueError(f"{unit!r} is no unit")
        return cls(int(number))


codec.register(Money, encode=str, decode=Money.parse)


@dataclass(frozen=True)
class Basket:
    """A dataclass of the others."""

    model: Model
    attrs: list[Attrs]
    struct: Struct | None
    tuple: dict[str, Tuple]
    dict: Dict
    money: Money


DAY = date(2030, 1, 2)


def model(amount: int = 1, **others: Any) -> Model:
    return Model(Amount=amount, day=DAY, **others)


def basket(amount: int = 1) -> Basket:
    return Basket(
        model(amount),
        [Attrs(amount, DAY)],
        Struct(amount, DAY),
        {"a": Tuple(amount, DAY)},
        {"amount": amount, "day": DAY},
        Money(amount),
    )


@task
def raise_model(given: Model) -> Model:
    return model(given.amount + 1, child=given)


@task
def raise_attrs(given: Attrs) -> Attrs:
    return Attrs(given.amount + 1, given._day, child=given)


@task
def raise_struct(given: Struct) -> Struct:
    return Struct(given.amount + 1, given.the_day, child=given)


@task
def raise_tuple(given: Tuple) -> Tuple:
    return Tuple(given.amount + 1, given.day, child=given)


@task
def raise_dict(given: Dict) -> Dict:
    return {"amount": given["amount"] + 1, "day": given["day"], "child": given}


@task
def raise_money(given: Money) -> Money:
    return Money(given.cents + 1)


@task
def raise_basket(given: Basket) -> Basket:
    return basket(given.model.amount + 1)


@task
def named(given: Any) -> str:
    """Return the class of the argument, and the argument in words."""
    return f"{type(given).__name__} {given}"


@task(encrypted=True)
def keep_model(given: Model, money: Money) -> Model:
    return model(given.amount + money.cents)


@task(redact=["given.note"])
def redacted(given: Model) -> None: ...


def ordered(amount: int) -> Struct:
    return Struct(amount, DAY)


@task(durable=True)
def approve(run: DurableContext, given: Model) -> Tuple:
    struct = run.step(ordered, given.amount)
    answer = run.wait_for("approved", Attrs)
    price = run.wait_for("price", Money)
    return Tuple(struct.amount + answer.amount + price.cents, answer._day)


class Sold(Event, topic="class_jobs.sold", key="name"):
    """An event whose fields have classes."""

    name: str
    model: Model
    tuples: list[Tuple]
    dict: Dict
    money: Money
