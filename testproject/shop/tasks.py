import random
import time

from django.core.mail import EmailMessage
from django.db.models import F
from django.template.loader import render_to_string

from pgqueue import TaskContext, task
from testproject.shop.models import Order, Product, StockMovement

# Fewer than max_attempts: the injected failures alone never kill a message.
FAILING_ATTEMPTS = 3
PACKING_TAKES = 0.5
"""Seconds for a piece."""


class ForkliftStuck(Exception):
    """The forklift is stuck. It will be free again in a moment."""


@task
def nothing() -> None:
    """Do nothing: what a message costs by itself."""


@task(channel="mail", timeout=30)
def send_receipt(order_id: int) -> None:
    """Mail the receipt to the customer; when a worker dies in between, twice."""
    order = Order.objects.select_related("product").get(pk=order_id)
    EmailMessage(
        subject=f"Your order #{order.pk}",
        body=render_to_string("shop/receipt.txt", {"order": order}),
        to=[order.email],
        headers={"X-Order": str(order.pk)},
    ).send()


@task(channel="stock", atomic=True, takes_context=True, max_attempts=5, backoff=[0.1, 0.2])
def move_stock(context: TaskContext, order_id: int) -> None:
    """Take what was ordered out of the stock, exactly once."""
    order = Order.objects.get(pk=order_id)
    StockMovement.objects.create(order=order, product_id=order.product_id, change=-order.quantity)
    Product.objects.filter(pk=order.product_id).update(stock=F("stock") - order.quantity)
    # After writing: the rollback has to take it back, or the retry moves it twice.
    if is_stuck(order_id, context.attempt):
        raise ForkliftStuck


def is_stuck(order_id: int, attempt: int) -> bool:
    """Say yes in a fifth of the early attempts: at random, but for each the same again."""
    chance = random.Random(f"{order_id}/{attempt}").random()
    return attempt <= FAILING_ATTEMPTS and chance < 0.2


@task(channel="packing", takes_context=True)
def pack(context: TaskContext, order_id: int) -> str:
    """Put what was ordered into a box, piece by piece."""
    order = Order.objects.get(pk=order_id)
    for piece in range(1, order.quantity + 1):
        context.checkpoint({"done": piece, "total": order.quantity})
        time.sleep(PACKING_TAKES)
    return f"{order.quantity} in a box"
