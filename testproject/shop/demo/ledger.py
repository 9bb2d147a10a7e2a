"""The books of a demo: what was promised, and what the tables and the mail server say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import pairwise
from math import ceil
from typing import Any, TypeVar

from django.db.models import Count, F, QuerySet, Sum

from pgqueue import read
from pgqueue.models import History, Message
from pgqueue.models.webhook import DELIVER
from pgqueue.states import Outcome
from testproject.shop.demo import CHANNEL, SKU_PREFIX
from testproject.shop.demo.producers import Placed
from testproject.shop.events import STOCK_MOVED, OrderPlaced, mail_receipt, take_from_stock
from testproject.shop.models import AuditEntry, Order, StockMovement
from testproject.shop.reports import sales_in

T = TypeVar("T")

FOLLOW_UPS = (mail_receipt.name, take_from_stock.name, DELIVER)
"""The tasks that have a message for each order."""
ORDER = "payload__args__0__payload__order_id"
"""Where a message has its event's order."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What came of a demo, in numbers.

    Args:
        orders_committed, orders_rolled_back: as the producers saw it.
        orders_astray: committed ones that are not in the table, rolled-back ones that are.
        orders_unmailed: committed ones without a receipt.
        orders_unposted: committed ones that the partner does not know.
        orders_not_moved_once: committed ones with no stock movement, a wrong one, or several.
        events: of the orders that were placed, in the log.
        events_astray: committed orders without exactly one, and others with any.
        enqueued: messages that follow from committed orders, one by one.
        missing: those of them that no table knows.
        retries: how often a task raised and was tried again.
        leases_lost: how often a message lost the worker that ran it.
        audited: entries in the audit trail.
        not_audited_once: what happened to committed orders and is not in it once.
        audited_out_of_order: entries that were written before one of an earlier event.
        reports: mails of the nightly report.
        reports_wrong: those of them that say anything else than the orders.
        refunds_wrong: refunds that the agent paid too often, not at all, or with another sum.
        questions_repeated: what the agent has asked the model again, but for the question that was
            under way when its worker was killed.
        per_s: messages that succeeded, a second of the whole run.
        pickup_p50_ms, pickup_p99_ms: how long messages waited from being made to the
            start of the run that succeeded: backlog, lost leases and retries are in it.
    """

    orders_committed: int
    orders_rolled_back: int
    orders_astray: int
    orders_unmailed: int
    orders_unposted: int
    orders_not_moved_once: int
    events: int
    events_astray: int
    enqueued: int
    succeeded: int
    dead: int
    missing: int
    retries: int
    leases_lost: int
    stock_movements: int
    audited: int
    not_audited_once: int
    audited_out_of_order: int
    mails: int
    mails_of_rolled_back_orders: int
    posts: int
    posts_of_rolled_back_orders: int
    reports: int
    reports_wrong: int
    refunds_wrong: int
    questions_repeated: int
    per_s: float
    pickup_p50_ms: float
    pickup_p99_ms: float

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept."""
        return [promise for promise, is_kept in PROMISES.items() if not is_kept(self)]

    @property
    def kept(self) -> bool:
        """Whether all promises were."""
        return not self.broken

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers and the verdict, for JSON."""
        return {**asdict(self), "kept": self.kept}


PROMISES: Mapping[str, Callable[[Ledger], bool]] = {
    "What was committed is there, what was rolled back is not.": lambda it: not it.orders_astray,
    "Each order that was committed is in the log once, and no other is.": (
        lambda it: not it.events_astray
    ),
    "No message is missing.": lambda it: not it.missing,
    "No message is dead.": lambda it: not it.dead,
    "Each message that follows from them succeeded once, and no other did.": (
        lambda it: it.succeeded == it.enqueued
    ),
    "There are as many stock movements as orders.": (
        lambda it: it.stock_movements == it.orders_committed
    ),
    "Each order moved the stock once.": lambda it: not it.orders_not_moved_once,
    "Each order, and each stock movement, is in the audit trail once.": (
        lambda it: not it.not_audited_once and it.audited == 2 * it.orders_committed
    ),
    "The audit trail is in the order of the log.": lambda it: not it.audited_out_of_order,
    "Each order was mailed a receipt.": (
        lambda it: not it.orders_unmailed and it.mails >= it.orders_committed
    ),
    "No order that was rolled back was mailed one.": (
        lambda it: not it.mails_of_rolled_back_orders
    ),
    "Each order was posted to the partner.": (
        lambda it: not it.orders_unposted and it.posts >= it.orders_committed
    ),
    "No order that was rolled back was posted.": lambda it: not it.posts_of_rolled_back_orders,
    "The nightly report, a flow, was mailed, and its sums are those of the orders.": (
        lambda it: it.reports > 0 and not it.reports_wrong
    ),
    "The agent, a durable task, paid back once, after the owner had agreed.": (
        lambda it: not it.refunds_wrong
    ),
    "The agent asked the model nothing again that had been answered.": (
        lambda it: not it.questions_repeated
    ),
}


def audit(
    placed: Sequence[Placed],
    received: Counter[int],
    posted: Counter[int],
    reports: Sequence[str],
    took: timedelta,
    *,
    after: int,
    refunds_wrong: int = 0,
    questions_repeated: int = 0,
) -> Ledger:
    """Compare what producers, mail server and partner saw with what the tables say.

    Args:
        received: mails by order id.
        posted: posts by order id.
        reports: what each mail of the nightly report says.
        after: the log's last position before the first order.
        refunds_wrong, questions_repeated: as in the ledger.
    """
    committed = {each.order_id for each in placed if each.is_committed}
    rolled_back = {each.order_id for each in placed if not each.is_committed}
    enqueued = {(task, order) for order in committed for task in FOLLOW_UPS}

    live = Message.objects.filter(channel=CHANNEL)
    over = History.objects.filter(channel=CHANNEL)
    known = {*live.values_list("task", ORDER), *over.values_list("task", ORDER)}
    succeeded = over.filter(outcome=Outcome.SUCCEEDED, task__in=FOLLOW_UPS)
    started = succeeded.filter(started_at__isnull=False)
    waits = sorted(started.values_list(F("started_at") - F("created_at"), flat=True))

    orders = Order.objects.filter(product__sku__startswith=SKU_PREFIX)
    stored = set(orders.values_list("id", flat=True))
    movements = StockMovement.objects.filter(order__in=orders)
    moved_once = set(
        orders.annotate(times=Count("movements"), change=Sum("movements__change"))
        .filter(times=1, change=-F("quantity"))
        .values_list("id", flat=True)
    )

    published = Counter(
        event.as_event(OrderPlaced).order_id
        for event in read(after=after, topics=OrderPlaced.topic, limit=2 * len(placed) + 1)
    )
    trail = AuditEntry.objects.filter(order__in=orders).order_by("id")
    audited = Counter(trail.values_list("order_id", "what"))
    happened = {(id, what) for id in committed for what in (OrderPlaced.topic, STOCK_MOVED)}
    positions = list(trail.values_list("position", flat=True))

    successes = succeeded.count()
    return Ledger(
        orders_committed=len(committed),
        orders_rolled_back=len(rolled_back),
        orders_astray=len(committed ^ stored),
        orders_unmailed=len(committed - received.keys()),
        orders_unposted=len(committed - posted.keys()),
        orders_not_moved_once=len(committed - moved_once),
        events=published.total(),
        events_astray=_not_once(published, committed),
        enqueued=len(enqueued),
        succeeded=successes,
        dead=live.dead().count(),
        missing=len(enqueued - known),
        retries=_sum(over, "failures"),
        leases_lost=_sum(live, "lost") + _sum(over, "lost"),
        stock_movements=movements.count(),
        audited=audited.total(),
        not_audited_once=_not_once(audited, happened),
        audited_out_of_order=sum(later < earlier for earlier, later in pairwise(positions)),
        mails=received.total(),
        mails_of_rolled_back_orders=sum(received[id] for id in rolled_back),
        posts=posted.total(),
        posts_of_rolled_back_orders=sum(posted[id] for id in rolled_back),
        reports=len(reports),
        reports_wrong=sum(each != str(sales_in(orders)) for each in reports),
        refunds_wrong=refunds_wrong,
        questions_repeated=questions_repeated,
        per_s=round(successes / took.total_seconds(), 1),
        pickup_p50_ms=_percentile(waits, 0.50),
        pickup_p99_ms=_percentile(waits, 0.99),
    )


def _not_once(counted: Counter[T], wanted: Collection[T]) -> int:
    """Count what there isn't exactly one of, and others that there is any of."""
    others = counted.keys() - set(wanted)
    return sum(counted[each] != 1 for each in wanted) + len(others)


def _sum(messages: QuerySet[Any], column: str) -> int:
    total: int = messages.aggregate(total=Sum(column, default=0))["total"]
    return total


def _percentile(waits: Sequence[timedelta], share: float) -> float:
    """Return the shortest wait that `share` of all were not longer than, in milliseconds."""
    if not waits:
        return 0
    return round(waits[ceil(share * len(waits)) - 1] / timedelta(milliseconds=1), 1)
