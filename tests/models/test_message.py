"""What an operator does, by the ORM."""

from __future__ import annotations

from contextlib import closing

import pytest
from django.db import OperationalError, connection, transaction

from pgqueue.database.connections import connect
from pgqueue.models import Message
from tests import jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("verb", ["cancel", "run_now", "replay", "discard", "release"])
def test_an_operation_that_fails_says_so_as_djangos_queries_do(verb: str) -> None:
    message = jobs.add.enqueue(1)
    operate = getattr(Message.objects.filter(pk=message.id), verb)
    with closing(connect("default", name="test")) as other, other.transaction():
        other.execute("LOCK TABLE pgqueue_message IN SHARE MODE")

        with pytest.raises(OperationalError), transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = '100ms'")
            operate()
