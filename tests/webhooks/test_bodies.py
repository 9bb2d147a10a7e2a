"""What is posted, as others read it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from pgqueue import InvalidWebhook, RecordedEvent
from pgqueue.codec import encoding, raw, register
from pgqueue.options import serializers
from pgqueue.sse.matching import recorded
from pgqueue.webhooks import bodies, serializer
from tests.class_jobs import Money

AT = datetime(2026, 1, 1, 12, 30, 0, 5, tzinfo=timezone(timedelta(hours=2)))


def event(payload: Any = None, *, position: int = 7, key: str = "c:1") -> RecordedEvent:
    return RecordedEvent.from_plain(
        {
            "position": position,
            "topic": "order.paid",
            "key": key,
            "payload": json.loads(raw.encode("it", payload) or "null", parse_float=Decimal),
            "metadata": {"acting": "Ada", "token": "hidden"},
            "created_at": AT.isoformat(),
        }
    )


def test_an_event_is_posted_as_standard_webhooks_propose() -> None:
    body = bodies.plain([event({"total": 12.5, "for": "\xe4"})], is_batch=False)

    assert body.kind == "application/json"
    assert json.loads(body.content) == {
        "type": "order.paid",
        "timestamp": "2026-01-01T10:30:00.000005+00:00",
        "key": "c:1",
        "position": 7,
        "data": {"total": 12.5, "for": "\xe4"},
    }


def test_what_is_beside_the_payload_stays_here() -> None:
    for made in (
        bodies.plain([event()], is_batch=True),
        bodies.cloudevents([event()], source="/shop", is_batch=True),
    ):
        assert b"Ada" not in made.content
        assert b"hidden" not in made.content


def test_a_batch_is_a_list_also_of_one() -> None:
    assert len(json.loads(bodies.plain([event()], is_batch=True).content)) == 1
    made = bodies.plain([event(n, position=n) for n in (1, 2)], is_batch=True)
    assert [each["data"] for each in json.loads(made.content)] == [1, 2]


def test_values_that_only_we_would_know_by_their_tags_are_plain_json() -> None:
    given = {
        "price": Decimal("1.10"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "for": timedelta(seconds=90),
        "id": UUID(int=1),
        "raw": b"ab",
        "some": {1},
    }

    made = bodies.plain([event(given)], is_batch=False)

    assert json.loads(made.content)["data"] == {
        "price": "1.10",
        "at": "2026-01-01T00:00:00Z",
        "for": "P0DT00H01M30S",
        "id": str(UUID(int=1)),
        "raw": "YWI=",
        "some": [1],
    }


def test_a_type_of_the_projects_own_and_a_time_with_a_zone_are_plain_json() -> None:
    with patch.dict(encoding.own_forms), patch.dict(encoding._own_by_tag):
        register(Money, encode=str, decode=Money.parse)
        given = {"price": Money(5), "at": time(9, tzinfo=UTC)}

        made = bodies.plain([event(given)], is_batch=False)

    assert json.loads(made.content)["data"] == {"price": "5 ct", "at": "09:00:00+00:00"}


def test_ids_are_the_same_in_a_project_without_time_zones(settings: Any) -> None:
    with_zones = event().unique_id
    settings.USE_TZ = False
    naive = event()

    assert naive.created_at.tzinfo is None
    assert naive.unique_id == with_zones
    assert bodies.cloudevents([naive], source="/shop", is_batch=False).content
    assert recorded("identity", naive)


def test_the_cloudevents_of_others_are_ours() -> None:
    made = bodies.cloudevents([event({"total": 12})], source="/shop", is_batch=False)

    assert made.kind == "application/cloudevents+json"
    read = JSONFormat().read(CloudEvent, made.content)
    assert (read.get_source(), read.get_type()) == ("/shop", "order.paid")
    assert read.get_id() == event().unique_id
    assert (read.get_subject(), read.get_time()) == ("c:1", AT)
    assert (read.get_specversion(), read.get_datacontenttype()) == ("1.0", "application/json")
    assert read.get_data() == {"total": 12}


def test_a_cloudevent_without_a_key_has_no_subject() -> None:
    made = bodies.cloudevents([event(key="")], source="/shop", is_batch=False)

    assert JSONFormat().read(CloudEvent, made.content).get_subject() is None


def test_several_cloudevents_are_a_batch() -> None:
    both = [event(n, position=n) for n in (1, 2)]

    made = bodies.cloudevents(both, source="/shop", is_batch=True)

    assert made.kind == "application/cloudevents-batch+json"
    read = [JSONFormat().read(CloudEvent, json.dumps(each)) for each in json.loads(made.content)]
    assert [each.get_id() for each in read] == [each.unique_id for each in both]


@serializer
def as_lines(events: list[RecordedEvent]) -> tuple[str, str]:
    return "".join(f"{each.position}\u00e4\n" for each in events), "text/plain"


@serializer
def as_nothing(events: list[RecordedEvent]) -> Any:
    return events[0].payload


def test_a_function_says_what_is_posted() -> None:
    name = serializers.name_of(as_lines)

    assert name == serializers.name_of(name) == f"{__name__}.as_lines"
    made = bodies.serialized(name, [event(), event(position=8)])
    assert made == ("7\xe4\n8\xe4\n".encode(), "text/plain")


@pytest.mark.parametrize(
    "made",
    [
        None,
        "body",
        ("body",),
        (1, "text/plain"),
        ("a", "b\r\nc"),
        ("a", "text/\u20ac"),
        ("a", ""),
        (),
    ],
)
def test_what_is_no_body_is_refused(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(serializers._declared, "own", lambda events: made)

    with pytest.raises(InvalidWebhook, match="its content type"):
        bodies.serialized("own", [event()])


@pytest.mark.parametrize("name", ["os.system", "nowhere.at_all", f"{__name__}.event", "x"])
def test_only_what_is_declared_is_called(name: str) -> None:
    with pytest.raises(InvalidWebhook, match="declared"):
        serializers.find_serializer(name)


@pytest.mark.parametrize("given", [lambda events: ("", ""), print, 7, str])
def test_only_functions_at_the_top_of_a_module_are_declared(given: Any) -> None:
    with pytest.raises(InvalidWebhook):
        serializers.name_of(given)
    if given is not print:
        with pytest.raises(InvalidWebhook, match="top of a module"):
            serializer(given)
