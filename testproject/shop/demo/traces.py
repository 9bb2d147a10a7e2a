"""What a demo leaves in the tables, on its channel and about its products."""

from datetime import datetime

from django.db import connection

from pgqueue.engine import dispatch, log
from pgqueue.events import groups, subscriptions
from pgqueue.models import History, Message
from pgqueue.states import State
from testproject.shop.demo import CHANNEL, SKU_PREFIX
from testproject.shop.events import write_audit_trail
from testproject.shop.models import Product

SUBSCRIPTIONS = ("shop receipts", "shop stock", "shop audit")


def clear() -> None:
    """Remove what former demos left, and no other rows. The log is left as it is."""
    Message.objects.filter(channel=CHANNEL).delete()
    History.objects.filter(channel=CHANNEL).delete()
    Product.objects.filter(sku__startswith=SKU_PREFIX).delete()


def subscribe_anew() -> None:
    """Store the shop's subscriptions so that they begin now, behind the events of former demos."""
    for name in SUBSCRIPTIONS:
        subscriptions.delete(name)
    subscriptions.synchronize()


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
    single = history.exclude(task=write_audit_trail.name)
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
