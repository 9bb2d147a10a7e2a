"""Classes with fields, registered types and lazy texts: from the caller to a worker and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.utils.translation import gettext_lazy, override

from pgqueue import batch, flow, signal
from pgqueue.events.publishing import made
from pgqueue.events.recorded import RecordedEvent
from pgqueue.exceptions import InvalidArgument, InvalidEvent
from pgqueue.models import Message
from pgqueue.tasks.redacting import redacted_values
from pgqueue.testing import run_all
from tests import class_jobs as jobs
from tests.class_jobs import DAY, Attrs, Money, Struct, Tuple, basket, model
from tests.processes import worker

pytestmark = pytest.mark.django_db(transaction=True)

PAIRS: list[tuple[Any, Any, Any]] = [
    (jobs.raise_model, model(), model(2, child=model())),
    (jobs.raise_attrs, Attrs(1, DAY), Attrs(2, DAY, child=Attrs(1, DAY))),
    (jobs.raise_struct, Struct(1, DAY), Struct(2, DAY, child=Struct(1, DAY))),
    (jobs.raise_tuple, Tuple(1, DAY), Tuple(2, DAY, child=Tuple(1, DAY))),
    (
        jobs.raise_dict,
        {"amount": 1, "day": DAY},
        {"amount": 2, "day": DAY, "child": {"amount": 1, "day": DAY}},
    ),
    (jobs.raise_money, Money(1), Money(2)),
    (jobs.raise_basket, basket(), basket(2)),
]
"""A task, its argument, and its result."""


class TestAWorker:
    def test_is_given_the_instance_and_returns_one(self) -> None:
        with worker():
            results = [(task.enqueue(given), expected) for task, given, expected in PAIRS]
            results += [(task.enqueue(given=given), expected) for task, given, expected in PAIRS]
            for result, expected in results:
                returned = result.wait(timeout=30).return_value

                assert returned == expected
                assert type(returned) is type(expected)

    def test_is_given_a_lazy_text_in_the_language_of_the_caller(self) -> None:
        with worker():
            with override("de"):
                german = jobs.named.enqueue(gettext_lazy("Monday"))
            english = jobs.named.enqueue(gettext_lazy("Monday"))

            assert german.wait(timeout=30).return_value == "str Montag"
            assert english.wait(timeout=30).return_value == "str Monday"

    def test_runs_a_durable_task_with_steps_and_signals_of_them(self) -> None:
        with worker():
            result = jobs.approve.enqueue(model(1))
            signal(result, "approved", Attrs(10, DAY))
            signal(result, "price", Money(100))

            assert result.wait(timeout=30).return_value == Tuple(111, DAY)


class TestPlainJSON:
    """A signal or a message of SQL has no tags."""

    def test_of_a_message_is_read_by_the_hint(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pgqueue_enqueue('tests.class_jobs.raise_model', %s)",
                ['{"args": [{"Amount": 1, "day": "2030-01-02"}]}'],
            )
        [result] = run_all(raise_errors=True)

        assert result.return_value == model(2, child=model())

    def test_of_a_signal_is_read_by_the_type_of_the_wait(self) -> None:
        result = jobs.approve.enqueue(model(1))
        with connection.cursor() as cursor:
            for name, payload in [
                ("approved", '{"amount": 10, "_day": "2030-01-02"}'),
                ("price", '"100 ct"'),
            ]:
                cursor.execute("SELECT pgqueue_signal_v1(%s, %s, %s)", [result.id, name, payload])
        run_all(raise_errors=True)
        result.refresh()

        assert result.return_value == Tuple(111, DAY)


class TestOtherWays:
    def test_a_flow_passes_the_result_to_the_next_task(self) -> None:
        with flow("raises") as f:
            last = {task: f.enqueue(task, f.enqueue(task, given)) for task, given, _ in PAIRS}
        run_all(raise_errors=True)

        amounts = {task: last[task].refresh() or last[task].return_value for task in last}
        assert amounts[jobs.raise_model].amount == 3
        assert amounts[jobs.raise_attrs].amount == 3
        assert amounts[jobs.raise_struct].amount == 3
        assert amounts[jobs.raise_tuple].amount == 3
        assert amounts[jobs.raise_dict]["amount"] == 3
        assert amounts[jobs.raise_money] == Money(3)
        assert amounts[jobs.raise_basket] == basket(3)

    def test_a_batch_and_enqueue_many_take_them(self) -> None:
        with batch() as work:
            work.enqueue(jobs.raise_model, model())
            work.enqueue_many(jobs.raise_tuple, [(Tuple(1, DAY),)])
        jobs.raise_money.enqueue_many([(Money(1),), {"given": Money(2)}])

        assert sorted(str(each.return_value) for each in run_all(raise_errors=True)) == sorted(
            [
                str(model(2, child=model())),
                str(Tuple(2, DAY, child=Tuple(1, DAY))),
                *("2 ct", "3 ct"),
            ]
        )

    def test_an_encrypted_task_stores_nothing_in_plain(self) -> None:
        result = jobs.keep_model.enqueue(model(1, note="the-cellar-key"), Money(2))
        stored = str(Message.objects.values().get())
        run_all(raise_errors=True)
        result.refresh()

        assert "cellar" not in stored
        assert "ct" not in str(Message.objects.values_list("payload"))
        assert result.return_value == model(3)

    def test_a_redacted_field_is_hidden(self) -> None:
        jobs.redacted.enqueue(model(note="the-cellar-key"))
        [payload] = Message.objects.values_list("payload", flat=True)
        shown, _ = redacted_values(jobs.redacted.name, {"payload": payload})

        assert payload["args"][0]["note"] == "the-cellar-key"
        assert shown["payload"]["args"][0]["note"] == "[redacted]"
        assert shown["payload"]["args"][0]["amount"] == 1

    def test_an_invalid_one_is_refused_at_enqueue_and_nothing_is_stored(self) -> None:
        invalid = model()
        invalid.amount = 0

        with pytest.raises(InvalidArgument, match=r"'given' of tests\.class_jobs\.raise_model"):
            jobs.raise_model.enqueue(invalid)
        assert not Message.objects.exists()

    def test_a_typed_event_has_them_as_fields(self) -> None:
        sold = jobs.Sold(
            name="a",
            model=model(),
            tuples=[Tuple(1, DAY)],
            dict={"amount": 1, "day": DAY},
            money=Money(5),
        )
        new = made(sold)
        stored = RecordedEvent(1, new.topic, new.key, new.payload, new.metadata, datetime.now(UTC))
        plain = json.loads(new.payload or "")

        assert stored.as_event() == sold
        assert (plain["model"]["day"], plain["money"]) == ("2030-01-02", "5 ct")

    def test_a_typed_event_names_the_field_that_is_invalid(self) -> None:
        invalid = model()
        invalid.amount = 0
        sold = jobs.Sold(
            name="a", model=invalid, tuples=[], dict={"amount": 1, "day": DAY}, money=Money(5)
        )

        with pytest.raises(InvalidEvent, match="field 'model', is no valid .*Model: amount"):
            made(sold)
