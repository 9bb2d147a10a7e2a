"""What a demo leaves in the tables, on its channel and about its products."""

from datetime import datetime

from django.db import connection

from pgqueue import webhooks
from pgqueue.engine import dispatch, log
from pgqueue.events import groups, subscriptions
from pgqueue.models import (
    Blocked,
    Dependency,
    FailedMember,
    Flow,
    History,
    Message,
    Step,
    StoredSignal,
)
from pgqueue.states import State
from testproject.shop.demo import CHANNEL, SKU_PREFIX
from testproject.shop.demo.receiver import Receiver
from testproject.shop.events import OURS, OrderPlaced, write_audit_trail
from testproject.shop.models import Product
from testproject.shop.reports import NAME, TASKS

SUBSCRIPTIONS = ("shop receipts", "shop stock", "shop audit")
WEBHOOK = "shop partner"


def clear() -> None:
    """Remove what former demos left, and no other rows. The log is left as it is."""
    flows = [flow.pk for flow in Flow.objects.filter(name=NAME)]
    for model in (Blocked, Dependency, FailedMember):
        model._base_manager.filter(flow_id__in=flows).delete()
    Flow.objects.filter(pk__in=flows).delete()
    messages = Message.objects.filter(channel=CHANNEL)
    ids = list(messages.values_list("pk", flat=True))
    for kept in (Step, StoredSignal):
        kept._base_manager.filter(message_id__in=ids).delete()
    messages.delete()
    History.objects.filter(channel=CHANNEL).delete()
    Product.objects.filter(sku__startswith=SKU_PREFIX).delete()


def subscribe_anew() -> None:
    """Store the shop's subscriptions so that they begin now, behind the events of former demos."""
    for name in SUBSCRIPTIONS:
        subscriptions.delete(name)
    subscriptions.synchronize()


def post_to(receiver: Receiver) -> None:
    """Have the shop's orders posted to a partner, from now on."""
    webhooks.delete(WEBHOOK)
    webhooks.create(
        WEBHOOK,
        receiver.url,
        topics=OrderPlaced.topic,
        where=OURS,
        secret=receiver.secret,
        channel=CHANNEL,
    )


def post_no_more() -> None:
    """Remove the webhook: its receiver is gone."""
    webhooks.delete(WEBHOOK)


def head() -> int:
    """Return the log's last position."""
    return groups.resolve(connection, "now")


def now() -> datetime:
    """Return what time the database has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def ended(since: datetime) -> int:
    """Count the messages about one order that ended since then, dead ones included."""
    # The time is for PostgreSQL: it leaves out other days and other people's blocks.
    history = History.objects.filter(channel=CHANNEL, finished_at__gte=since)
    single = history.exclude(task__in=[write_audit_trail.name, *TASKS])
    return single.count() + Message.objects.dead().filter(channel=CHANNEL).count()


def is_any_left() -> bool:
    """Say whether an event has yet to be dispatched, or a message to end."""
    # In the direction in which they go: none slips through.
    if log.is_anything_waiting(connection):
        return True
    place = dispatch.place(connection)
    if place.cursor < place.head:
        return True
    return Message.objects.filter(channel=CHANNEL).exclude(state=State.DEAD).exists()
