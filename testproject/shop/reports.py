"""The nightly report of what was sold, a flow: each product is a part, and the sum is mailed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.core.mail import EmailMessage
from django.db.models import Count, F, QuerySet, Sum

from pgqueue import flow, task
from testproject.shop.demo import CHANNEL
from testproject.shop.models import Order, Product

NAME = "sales of a day"
"""Of each such flow."""


@dataclass(frozen=True)
class Sales:
    """What was sold."""

    orders: int = 0
    pieces: int = 0
    total: Decimal = Decimal(0)

    def __add__(self, other: Sales) -> Sales:
        return Sales(
            self.orders + other.orders, self.pieces + other.pieces, self.total + other.total
        )

    def __str__(self) -> str:
        return f"{self.orders} orders, {self.pieces} pieces, {self.total:.2f} in all"


@task(channel=CHANNEL, atomic=True)
def report_sales(to: str, *, skus: str = "") -> str:
    """Store the flow of a report, once; return its id.

    Args:
        skus: how those of the products begin that it is about.
    """
    products = Product.objects.filter(sku__startswith=skus).values_list("pk", flat=True)
    with flow(NAME) as report:
        parts = report.enqueue_many(count_sales, [(product,) for product in products])
        report.enqueue(mail_report, report.enqueue(add_up, parts), to=to)
    return report.id


@task(channel=CHANNEL)
def count_sales(product_id: int) -> Sales:
    """Count what was sold of a product."""
    return sales_in(Order.objects.filter(product=product_id))


@task(channel=CHANNEL)
def add_up(parts: list[Sales]) -> Sales:
    """Return the sum of all parts."""
    return sum(parts, Sales())


@task(channel=CHANNEL, timeout=30)
def mail_report(sales: Sales, to: str) -> None:
    """Mail a report; when a worker dies in between, twice."""
    EmailMessage(
        subject="What was sold today", body=f"{sales}.\n", to=[to], headers={"X-Report": str(sales)}
    ).send()


TASKS: Sequence[str] = [each.name for each in (report_sales, count_sales, add_up, mail_report)]
"""What runs for a report."""


def sales_in(orders: QuerySet[Order]) -> Sales:
    """Return what was sold by these orders."""
    found = orders.aggregate(
        orders=Count("pk"),
        pieces=Sum("quantity", default=0),
        total=Sum(F("quantity") * F("product__price"), default=Decimal(0)),
    )
    return Sales(**found)
