"""A message that is replaced again and again, and how long it waits at most."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from pgqueue import Channel, batch, send
from pgqueue.exceptions import InvalidMessage, InvalidTask
from pgqueue.models import Message
from pgqueue.testing import run_all
from tests import jobs
from tests.durable.running import declared

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_tasks")]

MINUTE = timedelta(minutes=1)
debounced = jobs.add.using(
    dedupe_key="search index", on_conflict="replace", run_after=30, longest_wait=60
)


def age(**of: float) -> None:
    """Let all messages have been enqueued so long before."""
    Message.objects.update(created_at=F("created_at") - timedelta(**of))


def waits() -> timedelta:
    """Return how long after its first enqueue the message is due."""
    message = Message.objects.get()
    return message.run_at - message.created_at


def test_is_put_off_by_each_call() -> None:
    debounced.enqueue(1)
    age(seconds=20)

    again = debounced.enqueue(2)

    assert (again.came_of, again.status) == ("replaced", "scheduled")
    assert 49 < waits().total_seconds() < MINUTE.total_seconds()


def test_is_due_after_the_longest_wait_at_the_latest() -> None:
    debounced.enqueue(1)
    age(seconds=50)

    debounced.enqueue(2)

    assert waits() == MINUTE
    assert Message.objects.get().payload["args"] == [2]


def test_is_due_at_once_when_it_has_waited_that_long() -> None:
    first = debounced.enqueue(1)
    age(seconds=70)

    again = debounced.enqueue(2)

    assert (again.id, again.status) == (first.id, "ready")
    message = Message.objects.get()
    assert (message.state, message.payload["args"]) == ("ready", [2])
    assert message.run_at < timezone.now()


def test_is_put_off_for_ever_without_it() -> None:
    endless = debounced.using(longest_wait=None)
    endless.enqueue(1)
    age(seconds=70)

    assert endless.enqueue(2).status == "scheduled"


def test_begins_without_the_failures_of_the_message_that_it_replaces() -> None:
    def fails(number: int) -> None:
        raise ValueError

    task = declared(fails, dedupe_key="one", backoff=[60])
    task.enqueue(1)
    run_all()
    Message.objects.update(lost=2)
    assert Message.objects.get().failures == 1

    assert task.using(on_conflict="replace").enqueue(2).came_of == "replaced"

    message = Message.objects.get()
    assert (message.failures, message.lost) == (0, 0)
    assert [each["attempt"] for each in message.errors] == [1]


def test_is_claimed_in_a_governed_channel_too() -> None:
    Channel("default").policy(max_running=1)
    debounced.enqueue(1)
    age(seconds=70)
    debounced.enqueue(2)

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pgqueue_bell WHERE channel = 'default'")
        assert cursor.fetchone()[0] > 0


def test_of_many_only_those_that_were_replaced_are_due_earlier() -> None:
    each = jobs.add.using(
        dedupe_key=lambda a: f"{a}", on_conflict="replace", run_after=30, longest_wait=60
    )
    each.enqueue_many([(1,), (2,)])
    age(seconds=70)

    results = each.enqueue_many([(1,), (3,)])

    assert [result.came_of for result in results] == ["replaced", "stored"]
    states = Message.objects.order_by("id").values_list("dedupe_key", "state")
    assert list(states) == [("1", "ready"), ("2", "scheduled"), ("3", "scheduled")]


def test_holds_for_raw_messages_and_batches() -> None:
    options: dict[str, Any] = {"dedupe_key": "d", "on_conflict": "replace", "run_after": 30}
    send("mail", 1, longest_wait=60, **options)
    debounced.enqueue(1)
    age(seconds=70)

    send("mail", 2, longest_wait=60, **options)
    with batch() as drafts:
        drafts.enqueue(debounced, 2)

    assert set(Message.objects.values_list("state", flat=True)) == {"ready"}


def test_is_one_transaction_with_the_replacement() -> None:
    debounced.enqueue(1)
    age(seconds=70)

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        debounced.enqueue(2)
        1 / 0  # noqa: B018

    message = Message.objects.get()
    assert (message.state, message.payload["args"]) == ("scheduled", [1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest_wait": 60}, "on_conflict='replace'"),
        ({"longest_wait": 60, "on_conflict": "return"}, "on_conflict='replace'"),
        ({"longest_wait": 5, "on_conflict": "replace", "run_after": 9}, "shorter than run_after=9"),
        ({"longest_wait": 0, "on_conflict": "replace"}, "longer than 0"),
        ({"longest_wait": "5", "on_conflict": "replace"}, "longest_wait"),
    ],
)
def test_what_limits_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTask, match=message):
        jobs.add.using(dedupe_key="d", **options)
    with pytest.raises(InvalidMessage, match=message):
        send("mail", 1, dedupe_key="d", **options)
