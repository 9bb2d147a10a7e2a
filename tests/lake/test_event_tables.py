"""Typed events as tables of a lake: no event is lost, whatever its payload is."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgqueue import Event
from pgqueue.arrow.errors import InvalidOption
from pgqueue.events import typed
from pgqueue.events.publishing import made
from pgqueue.lake import EventTable, event_table
from pgqueue.lake.event_tables import EventField, check_names, columns_of, rows_of, schema_of
from pgqueue.management.commands.pgqueue_export import event_tables
from pgqueue.models import Export
from pgqueue.redaction import Redaction
from tests.factories import Connection, ended
from tests.lake.lakes import OurLake
from tests.spark.log import store

NOON = datetime(2026, 11, 24, 12, 30, 0, 5, tzinfo=UTC)
ID = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


class Mood(Enum):
    """An enum whose values are texts."""

    GLAD = "glad"


class Paid(Event, topic="lake.paid", key="order", version=2):
    """An event with a field of each kind."""

    order: int
    total: Decimal
    rate: float = 1.0
    note: str = ""
    is_new: bool = False
    at: datetime | None = None
    due: date | None = None
    token_id: UUID | None = None
    lines: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    mood: Mood = Mood.GLAD
    kind: Literal["a", "b"] = "a"
    pause: timedelta = timedelta(0)
    opens: time | None = None
    position: int = 0


PAID = Paid(
    order=7,
    total=Decimal("9.50"),
    rate=1e300,
    at=NOON.astimezone(timezone(timedelta(hours=2))),
    due=NOON.date(),
    token_id=ID,
    lines=[{"count": 2, "price": 1.5}],
    pause=timedelta(seconds=1.5),
    opens=time(8, 30),
    position=3,
)
ORDER = EventTable("lake.paid", (EventField("order", int), EventField("total", Decimal)))


@pytest.fixture(autouse=True)
def _classes_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "_classes", dict(typed._classes))


def events(*payloads: Any, metadata: str = "{}", topic: str = "lake.paid") -> pa.Table:
    """Return rows of the table of all events."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in payloads]
    count = len(texts)
    return pa.table(
        {
            "position": list(range(1, count + 1)),
            "topic": [topic] * count,
            "key": ["k"] * count,
            "payload": texts,
            "metadata": [metadata] * count,
            "created_at": pa.array([NOON] * count, pa.timestamp("us", "UTC")),
        }
    )


def read(table: EventTable, found: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rows_of(table.topic, columns_of(table, None), found).to_pylist()
    return rows


class TestAnEvent:
    def test_has_a_column_for_each_field(self) -> None:
        table = event_table(Paid)
        [row] = read(table, events(made(PAID).payload, metadata=made(PAID).metadata))

        assert table.name == "events_lake_paid"
        assert row == {
            "position": 1,
            "topic": "lake.paid",
            "key": "k",
            "created_at": NOON,
            "version": 2,
            "payload": None,
            "order": 7,
            "total": Decimal("9.50"),
            "rate": 1e300,
            "note": "",
            "is_new": False,
            "at": NOON,
            "due": NOON.date(),
            "token_id": str(ID),
            "lines": '[{"count":2,"price":1.5}]',
            "mood": "glad",
            "kind": "a",
            "pause": Decimal("1.5"),
            "opens": "08:30:00",
            "position_int": 3,
        }

    @pytest.mark.parametrize(
        "payload",
        [
            {"order": "seven", "total": 1},
            {"order": 2**63, "total": 1},
            {"order": True, "total": 1},
            {"order": None, "total": 1},
            {"order": {"@": "str", "value": "7"}, "total": 1},
            {"order": {"@": "unknown", "value": 7}, "total": 1},
            {"order": "[redacted]", "total": 1},
            {"total": 1},
        ],
    )
    def test_that_does_not_fit_its_class_keeps_its_payload(self, payload: Any) -> None:
        [row] = read(ORDER, events(payload))

        assert (row["order"], row["total"]) == (None, 1)
        assert json.loads(row["payload"]) == payload

    @pytest.mark.parametrize("payload", ["[1]", '"text"', "7", "null", "[" * 100_000, "{broken"])
    def test_with_another_payload_than_an_object_keeps_it(self, payload: str) -> None:
        [row] = read(ORDER, events(payload))

        assert (row["order"], row["total"], row["payload"]) == (None, None, payload)

    @pytest.mark.parametrize("total", ["1e30", "0." + "1" * 19, "NaN", "nine"])
    def test_with_a_decimal_of_too_many_digits_keeps_its_payload(self, total: str) -> None:
        [row] = read(ORDER, events({"order": 7, "total": total}))

        assert (row["order"], row["total"]) == (7, None)
        assert json.loads(row["payload"])["total"] == total

    @pytest.mark.parametrize("note", [{"@": "int", "value": 7}, {"@": "tuple", "value": []}])
    def test_with_a_value_of_another_class_keeps_its_payload(self, note: Any) -> None:
        table = EventTable("lake.paid", (EventField("note", str),))

        [row] = read(table, events({"note": note}))

        assert row["note"] is None
        assert json.loads(row["payload"]) == {"note": note}

    def test_has_its_times_in_utc(self) -> None:
        table = EventTable("lake.paid", (EventField("at", datetime),))
        beyond = {"at": "9999-12-31T23:00:00-05:00"}

        rows = read(table, events({"at": "2026-11-24T12:30:00.000005"}, beyond))

        assert [row["at"] for row in rows] == [NOON, None]
        assert [row["payload"] and json.loads(row["payload"]) for row in rows] == [None, beyond]

    def test_of_another_version_has_the_fields_that_it_knows(self) -> None:
        table = EventTable("lake.paid", (*ORDER.fields, EventField("coupon", str, True, True)))
        older = {"order": 7, "total": 1}
        newer = {"order": 8, "total": 1, "coupon": "X", "gift": True}

        rows = read(table, events(older, newer, metadata='{"version": 3}'))

        assert [(row["order"], row["coupon"]) for row in rows] == [(7, None), (8, "X")]
        assert [row["payload"] and json.loads(row["payload"]) for row in rows] == [None, newer]
        assert {row["version"] for row in rows} == {3}

    @pytest.mark.parametrize("metadata", ['{"version": "2"}', '{"version": 1e30}', "[]", "7"])
    def test_with_an_odd_version_has_none(self, metadata: str) -> None:
        [row] = read(ORDER, events({"order": 7, "total": 1}, metadata=metadata))

        assert row["version"] is None

    def test_keeps_a_number_in_json_that_no_float_has(self) -> None:
        table = EventTable("lake.paid", (EventField("lines", None),))
        exact = '{"lines": [1.10, 12345678901234567890.123]}'

        rows = read(table, events('{"lines": [1.10, {"a": null}]}', exact))

        assert [row["lines"] for row in rows] == ['[1.1,{"a":null}]', None]
        assert [row["payload"] for row in rows] == [None, exact]

    def test_of_another_topic_is_left_out(self) -> None:
        assert read(ORDER, events({"order": 7}, topic="lake.shipped")) == []


class TestAColumn:
    def test_of_a_field_with_another_type_than_before_is_a_second_one(self) -> None:
        number = EventTable("a.b", (EventField("total", int), EventField("Position", int)))
        text = EventTable("a.b", (EventField("total", str), EventField("Position", int)))

        first = columns_of(number, None)
        second = columns_of(text, schema_of(first))
        both = pa.unify_schemas([schema_of(first), schema_of(second)])

        assert list(first) == ["total", "Position_int"]
        assert list(second) == ["total_text", "Position_int"]
        assert list(columns_of(number, both)) == list(first)
        assert list(columns_of(text, both)) == list(second)

    def test_keeps_its_spelling_where_only_the_case_of_its_field_changes(self) -> None:
        """DuckLake refuses a second column with another case, and each export would end there."""
        before = columns_of(EventTable("a.b", (EventField("orderId", int),)), None)
        renamed = EventField("orderid", int)

        after = columns_of(EventTable("a.b", (renamed,)), schema_of(before))

        assert after == {"orderId": renamed}

    def test_has_a_type_that_holds_the_values_of_its_hint(self) -> None:
        class Odd(Event, topic="lake.odd"):
            either: int | float
            exact: int | Decimal
            mixed: int | str
            anything: Any = None
            raw: bytes = b""

        kinds = {each.name: (each.of, each.is_optional) for each in event_table(Odd).fields}

        assert kinds == {
            "either": (float, False),
            "exact": (Decimal, False),
            "mixed": (None, True),
            "anything": (None, True),
            "raw": (str, False),
        }


class TestARefusal:
    def test_of_two_topics_with_one_table(self) -> None:
        two = [EventTable("a.b", ()), EventTable("a_b", ())]

        with pytest.raises(InvalidOption, match=r"The topics a\.b and a_b have one table, events"):
            check_names(two)

    def test_of_a_class_without_a_topic(self) -> None:
        class Base(Event):
            order: int

        with pytest.raises(InvalidOption, match="Base has no topic"):
            event_table(Base)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("nowhere.Paid", "--events nowhere.Paid: No module named 'nowhere'"),
            (
                "pgqueue.Event",
                "--events pgqueue.Event: it must be a subclass of Event with a topic",
            ),
        ],
    )
    def test_of_a_name_that_is_no_event_class(self, name: str, message: str, url: str) -> None:
        with pytest.raises(CommandError, match=message):
            call_command(
                "pgqueue_export", "--to=/lake", "--tables-format=delta", f"--events={name}"
            )


def test_all_stands_for_each_declared_class() -> None:
    names = {each.name for each in event_tables(["all"])}

    assert {"events_lake_paid", "events_order_placed"} <= names
    assert [each.name for each in event_tables([f"{__name__}.Paid"] * 2)] == ["events_lake_paid"]
    assert event_tables([]) == []


class TestAnExport:
    def test_adds_a_table_later_and_its_columns_too(
        self, lake: OurLake, connection: Connection
    ) -> None:
        store(connection, topic="lake.paid", payload={"order": 7, "total": "9.50"}, key="k")
        store(connection, topic="lake.other", payload={"order": 8})
        ended(connection)
        lake.export()

        done = lake.export(events=[ORDER])
        text = EventTable("lake.paid", (EventField("order", str), EventField("at", datetime)))
        store(connection, topic="lake.paid", payload={"order": "A7", "at": NOON.isoformat()})
        ended(connection)
        again = lake.export(events=[text])

        assert (done.rows["events"], done.rows["events_lake_paid"]) == (0, 1)
        assert (again.rows["events"], again.rows["events_lake_paid"]) == (1, 1)
        for rows in lake.read("events_lake_paid").values():
            found = sorted(rows.to_pylist(), key=lambda row: row["position"])
            assert [(row["order"], row["order_text"], row["total"]) for row in found] == [
                (7, None, Decimal("9.50")),
                (None, "A7", None),
            ]
            assert [row["at"] for row in found] == [None, NOON]
            assert [row["payload"] for row in found] == [None, None]
            assert {row["day"] for row in found} == {found[0]["created_at"].date()}

    def test_notes_no_event_that_a_table_lacks(
        self, delta: OurLake, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store(connection, 3, topic="lake.paid", payload={"order": 7, "total": 1})
        monkeypatch.setattr(
            "pgqueue.lake.exporting.rows_of",
            lambda *given: (_ for _ in ()).throw(OSError("No space left on device")),
        )

        with pytest.raises(OSError, match="No space"):
            delta.export(events=[ORDER])

        assert not Export.objects.filter(event_position__gt=0).exists()

    def test_redacts_fields(self, delta: OurLake, connection: Connection) -> None:
        table = EventTable("lake.paid", (EventField("password", str), EventField("pin", int)))
        store(connection, topic="lake.paid", payload={"password": "hunter2", "pin": 1234})

        delta.export(events=[table], redact=Redaction())

        [row] = delta.rows("events_lake_paid")
        assert (row["password"], row["pin"]) == ("[redacted]", None)
        assert json.loads(row["payload"]) == {"password": "[redacted]", "pin": "[redacted]"}
