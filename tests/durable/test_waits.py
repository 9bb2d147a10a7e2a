"""Sleeps, and waits for signals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.utils import timezone

from pgqueue import InvalidArgument
from pgqueue.database.connections import borrow
from pgqueue.durable import DurableContext, Signal, asignal, signal
from pgqueue.engine import waking
from pgqueue.exceptions import InvalidStep, MessageEnded, StepFailed, UnknownTask, WaitTimeout
from pgqueue.models import Message, StoredSignal
from pgqueue.testing import advance, run_all
from tests.durable.running import (
    Oops,
    attempts,
    declared,
    durable,
    kept,
    refused,
    returned,
    run,
)

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


@dataclass
class Approval:
    by: str
    pages: list[int]


class TestASignal:
    @pytest.mark.parametrize("is_early", [True, False])
    def test_is_kept_until_the_run_waits_for_it(self, is_early: bool) -> None:
        @durable
        def works(run: DurableContext) -> str:
            answer = run.wait_for("approved", Approval)
            assert answer is not None
            return f"{answer.by} {answer.pages}"

        result = works.enqueue()
        if not is_early:
            assert run(result) == "held"
        assert result.signal("approved", Approval("ann", [1, 2]))

        assert returned(result) == "ann [1, 2]"
        assert attempts(result) == (1 if is_early else 2)
        [stored] = kept(result)["signals"]
        assert (stored["name"], stored["taken_by"]) == ("approved", "wait:approved")

    @pytest.mark.parametrize("type", [None, Decimal])
    def test_with_a_fraction_has_all_its_digits_in_each_run(self, type: Any) -> None:
        given: list[Any] = []

        @durable
        def works(run: DurableContext) -> None:
            given.append(run.wait_for("paid", type))
            run.sleep(0)

        result = works.enqueue()
        digits = "12345678901234567.12"
        with connection.cursor() as cursor:  # as a producer sends it by SQL
            cursor.execute(
                "SELECT pgqueue_signal_v1(%s, 'paid', %s::jsonb, NULL, NULL)", [result.id, digits]
            )
        returned(result)

        assert given == 2 * [Decimal(digits)]

    def test_of_several_is_taken_in_its_order_by_one_wait_each(self) -> None:
        @durable
        def works(run: DurableContext) -> list[int]:
            return [run.wait_for("item", int) or 0 for _ in range(4)]

        result = works.enqueue()
        for number in (1, 2):
            result.signal("item", number)
        run(result)
        for number in (3, 4):
            result.signal("item", number)

        assert returned(result) == [1, 2, 3, 4]

    def test_of_another_name_does_not_wake_the_run(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved")

        result = works.enqueue()
        run(result)
        result.signal("refused")

        assert run(result) == "held"
        assert attempts(result) == 1

    def test_of_a_wait_that_the_code_no_longer_has_wakes_the_run_once(self) -> None:
        names = ["approved"]

        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for(names[0])

        result = works.enqueue()
        run(result)
        names[0] = "approval"
        result.signal("approved")

        assert run(result) == "held"
        assert attempts(result) == 2
        with borrow("default") as connection:
            assert waking.ring_missed(connection) == 0
        result.signal("approval", 1)
        assert returned(result) == 1

    def test_does_not_end_the_pause_of_a_run_that_was_handed_back(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved")

        result = works.enqueue()
        run(result)
        Message.objects.update(
            state="scheduled",
            run_at=timezone.now() + DAY,
            metadata={"handed_back": {"times": 1}},
        )
        result.signal("approved", 1)
        run_all()

        result.refresh()
        assert result.status == "scheduled"
        advance(DAY)
        assert returned(result) == 1

    def test_reaches_the_message_of_its_id_or_its_dedupe_key(self) -> None:
        @durable(dedupe_key=lambda order: f"order:{order}")
        def works(run: DurableContext, order: int) -> Any:
            return run.wait_for("approved")

        by_id, by_key = works.enqueue(16), works.enqueue(17)
        run_all()
        assert signal(int(by_id.id), "approved", 1)
        assert signal(None, "approved", 2, dedupe_key="order:17")

        assert [returned(by_id), returned(by_key)] == [1, 2]

    def test_is_sent_from_async_code(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved")

        result = works.enqueue()

        assert async_to_sync(asignal)(result, "approved", dedupe_id="1")
        assert not async_to_sync(result.asignal)("approved", dedupe_id="1")

    def test_of_a_transaction_that_is_rolled_back_is_not_sent(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved")

        result = works.enqueue()
        run(result)
        with pytest.raises(Oops), transaction.atomic():
            result.signal("approved")
            raise Oops

        assert run(result) == "held"
        assert not StoredSignal.objects.exists()

    def test_that_its_sender_repeats_counts_once(self) -> None:
        @durable
        def works(run: DurableContext) -> list[Any]:
            return [run.wait_for("paid"), run.wait_for("paid", timeout=60)]

        result = works.enqueue()
        assert result.signal("paid", 1, dedupe_id="webhook 7")
        assert not result.signal("paid", 2, dedupe_id="webhook 7")
        run(result)
        assert not result.signal("paid", 3, dedupe_id="webhook 7")
        advance(61)

        assert returned(result) == [1, None]

    def test_to_a_message_that_has_ended_is_an_error_or_ignored(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            pass

        result = works.enqueue()
        run(result)

        with pytest.raises(MessageEnded, match=rf"'approved' reaches no message {result.id}"):
            signal(result.id, "approved")
        with pytest.raises(MessageEnded, match="dedupe key 'order:17' in the channel 'default'"):
            signal(None, "approved", dedupe_key="order:17")
        assert not result.signal("approved", if_ended="ignore")
        assert not StoredSignal.objects.exists()

    def test_of_sql_is_taken(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            answer = run.wait_for("approved", Approval)
            return answer and answer.by

        result = works.enqueue()
        run(result)
        with connection.cursor() as cursor:
            for came_of in ("sent", "repeated"):
                cursor.execute(
                    "SELECT pgqueue_signal_v1(%s, 'approved', %s, 'x')",
                    [int(result.id), '{"by": "ann", "pages": []}'],
                )
                assert cursor.fetchone() == (came_of,)
            cursor.execute("SELECT pgqueue_signal_v1(-1, 'approved')")
            assert cursor.fetchone() == ("ended",)

        assert returned(result) == "ann"

    @pytest.mark.parametrize(
        ("type", "payload"),
        [(timedelta, "in a while"), (Approval, "ann"), (Approval, None), (int, "7")],
    )
    def test_whose_payload_does_not_fit_is_an_error_that_names_it(
        self, type: Any, payload: Any
    ) -> None:
        @durable(max_attempts=1)
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved", type)

        result = works.enqueue()
        result.signal("approved", payload)

        assert run(result) == "dead"
        assert "the payload of the signal 'approved'" in result.errors[-1].traceback

    def test_whose_payload_only_newer_code_knows_is_handed_back_and_charged_nothing(self) -> None:
        @durable(max_attempts=1)
        def works(run: DurableContext) -> Any:
            return run.wait_for("approved", Approval)

        result = works.enqueue()
        run(result)
        result.signal("approved", {"by": "ann", "pages": [], "since": "2026-12"})

        assert run(result) == "scheduled"
        message = Message.objects.get()
        assert (message.failures, message.lost, message.errors) == (0, 0, [])

    @pytest.mark.parametrize("name", ["", "x" * 200, "nul\0", 7, None, "@event:a"])
    def test_of_an_invalid_name_is_refused(self, name: Any) -> None:
        def works(run: DurableContext) -> None:
            run.wait_for(name)

        with pytest.raises(InvalidStep, match="name="):
            signal(1, name)
        refused(works)

    def test_of_an_invalid_option_is_refused(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            pass

        result = works.enqueue()
        for given in ({"if_ended": "fail"}, {"dedupe_id": ""}, {"dedupe_id": 3}):
            with pytest.raises(InvalidStep, match=next(iter(given))):
                result.signal("a", **given)  # type: ignore[arg-type]
        with pytest.raises(InvalidStep, match="needs a message"):
            signal(None, "a")
        with pytest.raises(InvalidStep, match="is no message"):
            signal("x", "a")
        with pytest.raises(InvalidArgument, match="the signal 'a'"):
            result.signal("a", object())
        with pytest.raises(InvalidArgument, match="65,538 bytes"):
            result.signal("a", "x" * 65_536)

    def test_to_an_unknown_task_is_refused(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pgqueue_enqueue('shop.gone')")
            [id] = cursor.fetchone()

        with pytest.raises(UnknownTask, match=r"'shop\.gone'"):
            signal(id, "approved")

    def test_does_not_end_the_wait_between_tries(self) -> None:
        """A failed run that has not taken its signal keeps its backoff."""
        fails = [True, True]

        @durable(backoff=[3600])
        def works(run: DurableContext) -> Any:
            if run.attempt > 1 and fails:
                fails.pop()
                raise Oops
            return run.wait_for("go")

        result = works.enqueue()
        run(result)
        result.signal("go", 7)
        assert run(result) == "scheduled"
        assert attempts(result) == 2

        with borrow("default") as own:
            assert waking.ring_missed(own) == 0
        result.signal("go", 8)
        assert run(result) == "scheduled"
        assert attempts(result) == 2
        advance(3601)
        run(result)
        advance(3601)
        assert returned(result) == 7


class TestATimeout:
    @pytest.mark.parametrize("required", [True, False])
    def test_ends_the_wait(self, required: bool) -> None:
        @durable
        def works(run: DurableContext) -> str:
            try:
                answer = run.wait_for("approved", timeout=7 * DAY, required=required)
            except WaitTimeout as error:
                return str(error)
            return f"{answer}"

        result = works.enqueue()
        assert run(result) == "scheduled"
        advance(6 * DAY)
        assert run(result) == "scheduled"
        advance(2 * DAY)

        came_to = returned(result)
        assert ("signal 'approved'" in came_to) if required else came_to == "None"

    def test_that_was_met_in_time_does_not_end_another_wait(self) -> None:
        @durable
        def works(run: DurableContext) -> list[Any]:
            return [run.wait_for("a", timeout=60), run.wait_for("b", timeout=6000)]

        result = works.enqueue()
        run(result)
        result.signal("a", 1)
        run(result)
        advance(120)
        assert run(result) == "scheduled"
        result.signal("b", 2)

        assert returned(result) == [1, 2]

    def test_loses_against_a_signal_that_came_at_last(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for("a", timeout=60)

        result = works.enqueue()
        run(result)
        advance(120)
        result.signal("a", 1)

        assert returned(result) == 1

    def test_stays_decided(self) -> None:
        @durable
        def works(run: DurableContext) -> list[Any]:
            first = run.wait_for("a", timeout=60)
            second = run.wait_for("b")
            return [first, second, run.wait_for("a", timeout=60)]

        result = works.enqueue()
        run(result)
        advance(120)
        run(result)
        result.signal("a", 1)
        result.signal("b", 2)

        assert returned(result) == [None, 2, 1]

    @pytest.mark.parametrize("timeout", ["soon", datetime(2150, 1, 1), []])
    def test_that_is_invalid_is_refused(self, timeout: Any) -> None:
        def works(run: DurableContext) -> None:
            run.wait_for("a", timeout=timeout)

        assert "timeout=" in refused(works)


class TestAnyOfSeveral:
    def test_returns_the_first_one(self) -> None:
        @durable
        def works(run: DurableContext) -> list[Any]:
            first = run.wait_for_any(["yes", "no"])
            assert isinstance(first, Signal)
            return [*first, *(run.wait_for_any(["yes", "no"]) or [])]

        result = works.enqueue()
        run(result)
        result.signal("no", "why")
        run(result)
        result.signal("yes")

        assert returned(result) == ["no", "why", "yes", None]

    def test_may_time_out(self) -> None:
        @durable
        def works(run: DurableContext) -> Any:
            return run.wait_for_any(["yes", "no"], timeout=60)

        result = works.enqueue()
        run(result)
        advance(61)

        assert returned(result) is None

    @pytest.mark.parametrize("names", [[], "yes", [1], [""], ["a" * 200], None])
    def test_of_invalid_names_is_refused(self, names: Any) -> None:
        def works(run: DurableContext) -> None:
            run.wait_for_any(names)

        refused(works)

    def test_may_have_many_and_long_names(self) -> None:
        names = [f"{'ä' * 80}{number}" for number in range(9)]

        @durable
        def works(run: DurableContext) -> Any:
            return (run.wait_for_any(names) or ["none"])[0]

        result = works.enqueue()
        run(result)
        result.signal(names[3])

        assert returned(result) == names[3]


def test_signals_that_no_message_will_take_are_removed() -> None:
    task = declared(lambda: None)
    result = task.enqueue()
    result.signal("a")
    returned(result)

    with borrow("default") as own:
        waking.forget_strays(own)
        assert StoredSignal.objects.exists()  # perhaps its message is not committed yet
        StoredSignal.objects.update(sent_at=timezone.now() - timedelta(minutes=2))
        waking.forget_strays(own)

    assert not StoredSignal.objects.exists()


def test_signals_that_live_messages_have_not_taken_are_kept() -> None:
    @durable
    def works(run: DurableContext) -> None:
        run.sleep(3600)

    result = works.enqueue()
    result.signal("a")
    run(result)
    StoredSignal.objects.update(sent_at=timezone.now() - timedelta(minutes=2))

    with borrow("default") as own:
        waking.forget_strays(own)

    assert StoredSignal.objects.exists()


def test_failures_of_a_step_and_signals_mix() -> None:
    def charge() -> None:
        raise Oops

    @durable
    def works(run: DurableContext) -> Any:
        while True:
            try:
                return run.step(charge, retries=0)
            except StepFailed:
                if run.wait_for("again", bool) is False:
                    return "given up"

    result = works.enqueue()
    result.signal("again", True)
    run(result)
    result.signal("again", False)

    assert returned(result) == "given up"
