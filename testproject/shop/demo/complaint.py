"""A customer's complaint, which an agent handles while its worker is killed."""

from __future__ import annotations

from dataclasses import dataclass

from django.test import Client

from testproject.shop.agent import decide_about_refund
from testproject.shop.demo import CHANNEL, SKU_PREFIX
from testproject.shop.demo.model import HELD, Model
from testproject.shop.models import Order, Refund


@dataclass(frozen=True)
class Complaint:
    """A complaint about one order."""

    order: Order

    @classmethod
    def made(cls) -> Complaint:
        """Complain about the first order of the demo."""
        orders = Order.objects.filter(product__sku__startswith=SKU_PREFIX)
        order = orders.select_related("product").order_by("pk")[0]
        agent = decide_about_refund.using(channel=CHANNEL, priority=100)
        agent.enqueue(f"Order {order.pk} came broken.")
        return cls(order)

    def agree(self, url: str) -> None:
        """Open the link that the owner was mailed, and press its button."""
        Client(SERVER_NAME="localhost").post(url)

    def refunds_wrong(self) -> int:
        """Count the refunds that are too many, missing, or of another sum."""
        amounts = list(Refund.objects.filter(order=self.order).values_list("amount", flat=True))
        return abs(len(amounts) - 1) + sum(each != self.order.total for each in amounts)


def questions_repeated(model: Model) -> int:
    """Count the questions that were asked again, but for the one that was under way at the kill."""
    return sum(times - (2 if number == HELD else 1) for number, times in model.asked.items())
