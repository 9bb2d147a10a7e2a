"""Typed events: a dataclass for each topic."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import pytest

from pgqueue.events import typed
from pgqueue.events.publishing import made
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.typed import Event
from pgqueue.exceptions import InvalidEvent, PayloadTooLarge, UnreadableEvent


class Line(TypedDict):
    """A kind of dict that isinstance() does not know."""

    count: int


class Paid(Event, topic="typed.paid", key="order"):
    """An event with a field of each kind."""

    order: int
    total: Decimal
    rate: float = 1.0
    at: date | None = None
    lines: list[int] = dataclasses.field(default_factory=list)
    anything: Any = None
    line: Line | None = None


PAID = Paid(order=1, total=Decimal("9.50"))


@pytest.fixture(autouse=True)
def _classes_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "_classes", dict(typed._classes))


def stored(event: Event) -> RecordedEvent:
    """Return an event as it is read, without storing it."""
    new = made(event)
    return RecordedEvent(1, new.topic, new.key, new.payload, new.metadata, datetime.now(UTC))


def written(payload: str, *, topic: str = "typed.paid", metadata: str = "{}") -> RecordedEvent:
    return RecordedEvent(7, topic, "", payload, metadata, datetime.now(UTC))


class TestAnEvent:
    def test_is_frozen_and_takes_keyword_arguments_only(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            PAID.order = 2  # type: ignore[misc]
        with pytest.raises(TypeError):
            Paid(1, Decimal(1))  # type: ignore[misc]

    def test_comes_back_as_it_was(self) -> None:
        event = Paid(
            order=1, total=Decimal("9.50"), rate=0.5, at=date(2026, 5, 1), lines=[1, 2],
            anything={"id": UUID(int=1)},
        )  # fmt: skip

        assert stored(event).as_event() == event
        assert stored(event).as_event(Paid) == event

    def test_stores_plainly_what_its_hints_explain(self) -> None:
        assert typed.encode(PAID) == (
            '{"order": 1, "total": "9.50", "rate": 1.0, "at": null, "lines": [], "anything": null, '
            '"line": null}'
        )

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("order", "1"), ("order", None), ("order", 1.5), ("total", 9.5), ("total", "9.50")),
            *(("rate", "1"), ("at", "2026-05-01"), ("lines", (1,)), ("lines", None)),
        ],
    )
    def test_refuses_a_value_of_another_type(self, field: str, value: Any) -> None:
        with pytest.raises(InvalidEvent, match=rf"Paid\.{field} = "):
            dataclasses.replace(PAID, **{field: value})

    def test_takes_a_whole_number_for_a_float(self) -> None:
        assert Paid(order=1, total=Decimal(1), rate=2).rate == 2

    def test_has_the_key_of_its_field(self) -> None:
        assert made(PAID).key == "1"
        assert made(PAID, key="other").key == "other"

    def test_says_its_version(self) -> None:
        class Third(Event, topic="typed.third", version=3):
            pass

        assert stored(Third()).metadata == {"version": 3}

    def test_keeps_its_version_whatever_its_metadata_say(self) -> None:
        new = made(PAID, metadata={"version": "9", "why": "x"})

        assert written(new.payload or "", metadata=new.metadata).metadata == {
            "version": 1,
            "why": "x",
        }

    def test_that_can_not_be_stored_is_refused_by_the_name_of_its_field(self) -> None:
        nested: list[Any] = []
        nested.append(nested)

        for value in (object(), nested, 10**5000, "\ud800"):
            with pytest.raises(InvalidEvent, match="'anything'"):
                typed.encode(dataclasses.replace(PAID, anything=value))

    def test_that_is_too_large_is_refused(self) -> None:
        with pytest.raises(PayloadTooLarge, match="Paid"):
            typed.encode(dataclasses.replace(PAID, anything="x" * 2**24))

    def test_whose_key_is_too_long_is_refused(self) -> None:
        class Keyed(Event, topic="typed.keyed", key="name"):
            name: str

        with pytest.raises(InvalidEvent, match=r"Keyed\.name"):
            made(Keyed(name="k" * 1001))

    def test_without_a_topic_is_refused(self) -> None:
        class Base(Event):
            order: int

        with pytest.raises(InvalidEvent, match="Base has no topic"):
            made(Base(order=1))

    def test_has_no_payload_beside_itself(self) -> None:
        with pytest.raises(InvalidEvent, match="its own payload"):
            made(PAID, {"a": 1})


class TestAClass:
    def test_inherits_fields_and_the_key(self) -> None:
        class Base(Event, key="order"):
            order: int

        class Sent(Base, topic="typed.sent"):
            by: str = "post"

        assert made(Sent(order=3)).key == "3"
        assert stored(Sent(order=3)).as_event() == Sent(order=3, by="post")

    def test_has_not_the_topic_of_the_class_that_it_inherits_from(self) -> None:
        class More(Paid):
            more: int

        with pytest.raises(InvalidEvent, match="More has no topic"):
            made(More(order=1, total=Decimal(1), more=1))
        assert type(stored(PAID).as_event()) is Paid

    def test_of_a_topic_that_another_has_is_refused(self) -> None:
        with pytest.raises(InvalidEvent, match=r"'typed\.paid'.*test_typed\.Paid"):

            class Other(Event, topic="typed.paid"):
                pass

        assert typed.class_of("typed.paid") is Paid

    def test_that_is_declared_again_as_its_module_is_reloaded_replaces_the_first(self) -> None:
        def declare() -> type[Event]:
            class Again(Event, topic="typed.again"):
                pass

            return Again

        declare()
        second = declare()

        assert typed.class_of("typed.again") is second

    @pytest.mark.parametrize("topic", ["", "a.*", "a b", 5, "x" * 201])
    def test_has_a_topic_that_can_be(self, topic: Any) -> None:
        with pytest.raises(InvalidEvent, match="topic="):
            type("Bad", (Event,), {"__annotations__": {}}, topic=topic)

    @pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.5])
    def test_has_a_version_that_can_be(self, version: Any) -> None:
        with pytest.raises(InvalidEvent, match=r"Bad: version="):
            type("Bad", (Event,), {"__annotations__": {}}, topic="typed.bad", version=version)

    @pytest.mark.parametrize("key", ["oder", "topic", 5])
    def test_has_the_field_that_is_its_key(self, key: Any) -> None:
        with pytest.raises(InvalidEvent, match="Bad: key="):
            type("Bad", (Event,), {"__annotations__": {"order": int}}, topic="typed.bad", key=key)

    @pytest.mark.parametrize("name", ["topic", "version", "key_field", "upgrade"])
    def test_has_no_field_of_a_name_that_events_have(self, name: str) -> None:
        with pytest.raises(InvalidEvent, match=rf"Bad\.{name}: "):
            type("Bad", (Event,), {"__annotations__": {name: str}}, topic="typed.bad")

    @pytest.mark.parametrize(
        "options", [{"version": 0}, {"key": "oder"}, {"annotations": {"topic": "str"}}]
    )
    def test_that_is_refused_has_not_taken_its_topic(self, options: dict[str, Any]) -> None:
        own = {"__annotations__": options.pop("annotations", {})}
        with pytest.raises(InvalidEvent):
            type("Bad", (Event,), own, topic="typed.bad", **options)

        assert typed.class_of("typed.bad") is None


class TestReading:
    def test_takes_the_default_of_a_field_that_an_older_version_lacks(self) -> None:
        assert written('{"order": 1, "total": "9.50"}').as_event() == PAID

    def test_leaves_out_fields_that_a_newer_version_has(self) -> None:
        newer = written(
            '{"order": 1, "total": "9.50", "tip": {"@": "Unknown", "value": 1}}',
            metadata='{"version": 99}',
        )

        assert newer.as_event() == PAID

    def test_upgrades_what_an_older_version_wrote(self) -> None:
        class Moved(Event, topic="typed.moved", version=3):
            place: str

            @classmethod
            def upgrade(cls, payload: dict[str, Any], version: int) -> dict[str, Any]:
                return {"place": f"{payload['town']} since {version}"}

        for metadata, version in (("{}", 1), ('{"version": 2}', 2)):
            old = written('{"town": "Bonn"}', topic="typed.moved", metadata=metadata)
            assert old.as_event() == Moved(place=f"Bonn since {version}")
        new = written('{"place": "Bonn"}', topic="typed.moved", metadata='{"version": 3}')
        assert new.as_event() == Moved(place="Bonn")

    def test_names_an_upgrade_that_fails(self) -> None:
        class Moved(Event, topic="typed.moved", version=2):
            place: str

            @classmethod
            def upgrade(cls, payload: dict[str, Any], version: int) -> dict[str, Any]:
                return {"place": payload["town"]}

        with pytest.raises(UnreadableEvent, match="Moved.*town"):
            written("{}", topic="typed.moved").as_event()

    @pytest.mark.parametrize(
        "payload",
        [
            *('{"total": "9.50"}', '{"order": "x", "total": "1"}', '{"order": 1, "total": []}'),
            *('{"order": 1, "total": {"@": "Unknown", "value": 1}}', "[]", "null", '"a"'),
        ],
    )
    def test_names_the_class_that_a_payload_does_not_fit(self, payload: str) -> None:
        with pytest.raises(UnreadableEvent, match=r"test_typed\.Paid can't be read"):
            written(payload).as_event()

    def test_without_a_payload_is_refused(self) -> None:
        empty = RecordedEvent(1, "typed.paid", "", None, "{}", datetime.now(UTC))

        with pytest.raises(UnreadableEvent):
            empty.as_event()

    def test_of_a_topic_without_a_class_says_so(self) -> None:
        with pytest.raises(UnreadableEvent, match=r"'typed\.nobody'.*imported"):
            written("{}", topic="typed.nobody").as_event()

    def test_as_another_class_is_possible(self) -> None:
        class Other(Event):
            order: int

        assert written('{"order": 1, "total": "9.50"}').as_event(Other) == Other(order=1)
