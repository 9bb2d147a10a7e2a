"""The format of streams, read back as the HTML standard says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pgqueue.events.recorded import RecordedEvent
from pgqueue.streams import wire


def parsed(stream: bytes) -> list[dict[str, str]]:
    """Read a stream as the standard says: an event's fields, for each that is dispatched."""
    events, fields, last_id = [], {}, ""
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n"):
        if not line:
            if "data" in fields:
                events.append({**fields, "id": last_id})
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            fields["data"] = f"{fields['data']}\n{value}" if "data" in fields else value
        elif name == "event":
            fields["event"] = value
        elif name == "id" and "\0" not in value:
            last_id = value
    return events


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_arrives_as_it_is_but_for_the_kind_of_its_line_ends(text: str) -> None:
    [event] = parsed(wire.block(text, event="a", id=1))

    assert event["data"] == text.replace("\r\n", "\n").replace("\r", "\n")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_name_or_id_begins_another_field(text: str) -> None:
    [event] = parsed(wire.block("x", event=text, id=text))

    assert event.keys() <= {"event", "data", "id"}
    assert event["data"] == "x"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
)
def test_an_event_arrives_with_its_payload_topic_and_position(payload: Any) -> None:
    now = datetime.now(UTC)
    event = RecordedEvent(7, "order.placed", "k\n", json.dumps(payload), "{}", now)

    [arrived] = parsed(wire.recorded(event, mark="0a"))

    assert (arrived["event"], arrived["id"]) == ("order.placed", "7-0a")
    assert json.loads(arrived["data"]) == {
        "position": 7,
        "topic": "order.placed",
        "key": "k\n",
        "created_at": now.isoformat(),
        "payload": payload,
    }


def test_what_is_for_no_handler_dispatches_no_event() -> None:
    quiet = wire.comment("a\nevent: b") + wire.position(5) + wire.retry(timedelta(seconds=2))

    assert parsed(quiet) == []
    assert parsed(quiet + wire.block("x")) == [{"data": "x", "id": "5"}]
    assert b"retry: 2000\n" in quiet
