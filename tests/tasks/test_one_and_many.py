"""To enqueue, send or publish one by one stores the same as to do it for many at once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue import publish, publish_many
from pgqueue.exceptions import InvalidEvent
from pgqueue.models import Message
from pgqueue.options.filters import as_topic
from pgqueue.tasks.sending import send, send_many
from tests import jobs

BOUNDED = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXTS = st.sampled_from(["", "a", "\t", "\\N", "\\", "é\U0001f600", "a\nb\rc", "@", "'\"%s"])
VALUES = st.recursive(
    st.one_of(
        TEXTS,
        st.none() | st.booleans() | st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([Decimal("1.2E+2"), date(2026, 11, 24), UUID(int=7), b"\x00\xff", {1, 2}]),
        st.just(datetime(2026, 11, 24, 10, tzinfo=UTC)),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(-100, 100),
        "key": TEXTS,
        "max_attempts": st.integers(1, 9),
        "run_after": st.sampled_from([0, 3600]),
        "ttl": st.just(60),
        "ordered": st.booleans(),
        "hold_for": st.just(60),
        "metadata": st.dictionaries(TEXTS, TEXTS, max_size=2),
    },
)
PAYLOADS = st.lists(VALUES, min_size=2, max_size=4)
COLUMNS = ("channel", "key", "task", "payload", "body", "metadata", "options", "priority", "state",
           "max_attempts", "ordered", "governed", "parent_id", "flow_id", "dedupe_key",
           "attempt", "failures")  # fmt: skip


def stored() -> list[Any]:
    """Return the messages, without their ids and times, and delete them."""
    rows = [
        (*(getattr(row, name) for name in COLUMNS), row.run_at > row.created_at,
         row.expires_at is None, row.lease_until is None)
        for row in Message.objects.order_by("id")
    ]  # fmt: skip
    Message.objects.all().delete()
    return rows


@BOUNDED
@given(arguments=PAYLOADS, options=OPTIONS)
@pytest.mark.django_db
def test_tasks_are_enqueued_alike(arguments: list[Any], options: dict[str, Any]) -> None:
    own = jobs.anything.using(**options)

    for each in arguments:
        own.enqueue(each)
    one_by_one = stored()
    own.enqueue_many([(each,) for each in arguments])

    assert stored() == one_by_one


@BOUNDED
@given(payloads=PAYLOADS, with_bodies=st.booleans(), options=OPTIONS)
@pytest.mark.django_db
def test_raw_messages_are_sent_alike(
    payloads: list[Any], with_bodies: bool, options: dict[str, Any]
) -> None:
    bodies = [b"\x00\xff"] * len(payloads) if with_bodies else [None] * len(payloads)

    for payload, body in zip(payloads, bodies, strict=True):
        send("c", payload, body=body, **options)
    one_by_one = stored()
    send_many("c", payloads, bodies=bodies if with_bodies else None, **options)

    assert stored() == one_by_one


@BOUNDED
@given(payloads=PAYLOADS, key=TEXTS, metadata=st.dictionaries(TEXTS, TEXTS, max_size=2))
@pytest.mark.django_db
def test_events_are_published_alike(
    payloads: list[Any], key: str, metadata: dict[str, str]
) -> None:
    def inbox() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT topic, key, payload::text, metadata::text "
                "FROM pgqueue_event_inbox ORDER BY id"
            )
            rows = cursor.fetchall()
            cursor.execute("DELETE FROM pgqueue_event_inbox")
        return rows

    for each in payloads:
        publish("a.b", each, key=key, metadata=metadata)
    one_by_one = inbox()
    publish_many((("a.b", each, key) for each in payloads), metadata=metadata)

    assert inbox() == one_by_one


@settings(BOUNDED, max_examples=300)
@given(topic=st.text(st.sampled_from("a.*\t\n\r\x0b\x0c é\ufeff"), max_size=6))
@pytest.mark.django_db
def test_python_and_sql_take_the_same_topics(topic: str) -> None:
    try:
        as_topic(topic)
        by_python = True
    except InvalidEvent:
        by_python = False
    with connection.cursor() as cursor:
        cursor.execute(r"SELECT %s ~ '^[^.*\s]+(\.[^.*\s]+)*$'", [topic])
        [by_sql] = cursor.fetchone()

    assert by_sql == by_python
