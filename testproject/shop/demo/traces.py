"""What a demo leaves in the tables, on its channel and about its products."""

from datetime import datetime

from django.db import connection

from pgqueue.models import History, Message
from pgqueue.states import State
from testproject.shop.demo import CHANNEL, SKU_PREFIX
from testproject.shop.models import Product


def clear() -> None:
    """Remove what former demos left, and no other rows."""
    Message.objects.filter(channel=CHANNEL).delete()
    History.objects.filter(channel=CHANNEL).delete()
    Product.objects.filter(sku__startswith=SKU_PREFIX).delete()


def now() -> datetime:
    """Return what time the database has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def ended(since: datetime) -> int:
    """Count the messages that ended since then, dead ones included."""
    # The time is for PostgreSQL: it leaves out other days and other people's blocks.
    history = History.objects.filter(channel=CHANNEL, finished_at__gte=since)
    return history.count() + Message.objects.dead().filter(channel=CHANNEL).count()


def is_any_left() -> bool:
    """Say whether a message has yet to end."""
    return Message.objects.filter(channel=CHANNEL).exclude(state=State.DEAD).exists()
