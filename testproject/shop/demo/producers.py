from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from django.db import connections, transaction

from pgqueue import publish
from testproject.shop.demo.baskets import Basket
from testproject.shop.events import OrderPlaced


class PaymentDeclined(Exception):
    """The customer's bank said no."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of an order."""

    order_id: int
    is_committed: bool


def place(basket: Basket) -> Placed:
    """Store an order, and in the same transaction publish that it was placed.

    What follows from it is for those who subscribe to that.
    """
    order = basket.order
    try:
        with transaction.atomic():
            order.save()
            publish(OrderPlaced(order_id=order.pk, email=order.email, total=order.total))
            if not basket.is_paid:
                raise PaymentDeclined
    except PaymentDeclined:
        return Placed(order.pk, is_committed=False)
    return Placed(order.pk, is_committed=True)


class Producers:
    """Threads that place orders side by side. Leaving the block ends them."""

    def __init__(self, baskets: Sequence[Basket], *, threads: int) -> None:
        self._shares = [baskets[number::threads] for number in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="producer")
        self._stopping = Event()
        self._placing: list[Future[list[Placed]]] = []

    def __enter__(self) -> Producers:
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._pool.shutdown()

    def start(self) -> None:
        """Begin to place orders."""
        self._placing = [self._pool.submit(self._place_all, share) for share in self._shares]

    def check(self) -> None:
        """Raise what a producer raised."""
        for placing in self._placing:
            if placing.done():
                placing.result()

    def are_done(self) -> bool:
        """Whether all orders are placed."""
        return all(placing.done() for placing in self._placing)

    def join(self) -> list[Placed]:
        """Wait until all orders are placed, and return what became of each."""
        return [placed for placing in self._placing for placed in placing.result()]

    def _place_all(self, baskets: Sequence[Basket]) -> list[Placed]:
        try:
            return [place(basket) for basket in baskets if not self._stopping.is_set()]
        finally:
            connections.close_all()
