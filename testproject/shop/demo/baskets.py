# factory-boy has types, but not yet for what one calls.
# mypy: allow-untyped-calls
from __future__ import annotations

import random
from dataclasses import dataclass

from factory.declarations import Sequence
from factory.fuzzy import FuzzyChoice
from factory.random import reseed_random

from testproject.shop.demo import SKU_PREFIX
from testproject.shop.factories import OrderFactory, ProductFactory
from testproject.shop.models import Order

PRODUCTS = 50
UNPAID_ARE_ONE_IN = 10


@dataclass(frozen=True, slots=True)
class Basket:
    """An order that is yet to be placed, and whether it can be paid."""

    order: Order
    is_paid: bool


def fill_baskets(count: int, *, seed: int) -> list[Basket]:
    """Make up `count` orders; one in ten will be rolled back."""
    reseed_random(seed)
    products = ProductFactory.create_batch(PRODUCTS, sku=Sequence(f"{SKU_PREFIX}{{:05}}".format))
    orders = OrderFactory.build_batch(count, product=FuzzyChoice(products))
    unpaid = set(random.Random(seed).sample(range(count), count // UNPAID_ARE_ONE_IN))
    return [Basket(order, number not in unpaid) for number, order in enumerate(orders)]
