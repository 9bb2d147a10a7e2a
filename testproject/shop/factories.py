"""Products and orders that look like real ones."""

# factory-boy has types, but not yet for what one calls.
# mypy: allow-untyped-calls
from factory.declarations import LazyAttribute, Sequence, SubFactory
from factory.django import DjangoModelFactory
from factory.faker import Faker
from factory.fuzzy import FuzzyDecimal, FuzzyInteger

from testproject.shop.models import Order, Product


class ProductFactory(DjangoModelFactory[Product]):
    class Meta:
        model = Product

    sku = Sequence("sku-{:05}".format)
    name = Faker("catch_phrase")
    price = FuzzyDecimal(1, 200, 2)
    stock = 10_000


class OrderFactory(DjangoModelFactory[Order]):
    """An order; some first names, and so some customers, are much more frequent than others."""

    class Meta:
        model = Order

    name = Faker("first_name")
    email = LazyAttribute(lambda order: f"{order.name.lower()}@example.com")
    product = SubFactory(ProductFactory)
    quantity = FuzzyInteger(1, 5)
