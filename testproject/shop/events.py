"""What happens in the shop, and what follows from it."""

from decimal import Decimal

from pgqueue import Event, RecordedEvent, TaskContext, subscribe
from testproject.shop.demo import CHANNEL
from testproject.shop.models import AuditEntry
from testproject.shop.tasks import move_stock, send_receipt


class OrderPlaced(Event, topic="order.placed", key="email"):
    """A customer has placed an order."""

    order_id: int
    email: str
    total: Decimal


STOCK_MOVED = "shop_stockmovement.insert"
"""What the tracked table of stock movements publishes."""

# The shop's only customers are those of the demo, whose worker serves this channel.
OURS = {"order_id__exists": True}
"""Guides and tests publish orders of their own."""


@subscribe(
    "order.placed", where=OURS, name="shop receipts", channel=CHANNEL, key="{key}", timeout=30
)
def mail_receipt(event: OrderPlaced) -> None:
    """Mail the receipt to the customer; when a worker dies in between, twice."""
    send_receipt(event.order_id)


@subscribe(
    "order.placed",
    where=OURS,
    name="shop stock",
    channel=CHANNEL,
    key="{key}",
    atomic=True,
    takes_context=True,
    max_attempts=5,
    backoff=[0.1, 0.2],
)
def take_from_stock(context: TaskContext, event: OrderPlaced) -> None:
    """Take what was ordered out of the stock, exactly once."""
    move_stock.func(context, event.order_id)


@subscribe(
    OrderPlaced.topic,
    STOCK_MOVED,
    name="shop audit",
    channel=CHANNEL,
    key="audit",
    ordered=True,
    batch=100,
    atomic=True,
)
def write_audit_trail(events: list[RecordedEvent]) -> None:
    """Keep what has happened to orders, each once, in the order of the log."""
    AuditEntry.objects.bulk_create(
        AuditEntry(
            position=event.position,
            order_id=order_id,
            what=event.topic,
            happened_at=event.created_at,
        )
        for event in events
        if (order_id := _order_of(event)) is not None
    )


def _order_of(event: RecordedEvent) -> int | None:
    """Return the order that an event is of; None: it is none of the shop's."""
    about = event.payload["new"] if event.topic == STOCK_MOVED else event.payload
    return about.get("order_id") if isinstance(about, dict) else None
