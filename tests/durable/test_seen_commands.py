"""Commands show the steps of durable runs, find runs by their waits, and send signals."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError

from pgqueue.durable import signal
from pgqueue.listing import index
from pgqueue.models import Message, StoredSignal
from pgqueue.operating import bulk
from pgqueue.testing import run_all
from pgqueue.values.waits import as_wait
from tests.admin.acting import MESSAGES, listed
from tests.durable import tasks
from tests.management.calling import call

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting() -> dict[str, Any]:
    """Runs of each kind of a wait."""
    tasks.failing["on"] = True
    made = {
        "signal:go": tasks.asks_late.enqueue(2),
        "signal:approved": tasks.asks.enqueue(),
        "sleep:night": tasks.naps.enqueue(),
        "event:payment.settled": tasks.pays.enqueue("7"),
        "call:gather": tasks.waits_for_slow.enqueue(),
        "retry:fails": tasks.fails_slowly.enqueue(),
    }
    tasks.square.using(run_after=3600).enqueue(3)
    run_all()
    return {name: int(each.id) for name, each in made.items()}


def found(text: str, *options: str) -> set[int]:
    each = call("pgqueue_list", "--waits", text, "--format=json", *options).objects
    return {row["id"] for row in each}


class TestAWait:
    def test_is_found_by_its_kind_and_by_its_name(self, waiting: dict[str, int]) -> None:
        for name, id in waiting.items():
            assert found(name) == {id}
            assert id in found(name.partition(":")[0])
            assert not found(f"{name}-not")

        assert found("signal") == {waiting["signal:go"], waiting["signal:approved"]}

    def test_is_one_condition_among_others(self, waiting: dict[str, int]) -> None:
        assert found("sleep", "--state=scheduled") == {waiting["sleep:night"]}
        assert found("sleep", "--state=held") == found("sleep", "--state=ended") == set()
        assert found("signal", "--task", tasks.asks.name) == {waiting["signal:approved"]}

    @pytest.mark.parametrize("text", ["sleeps", "", "signal:", ":a", "sig\0nal"])
    def test_that_does_not_exist_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError):
            as_wait(text)
        with pytest.raises(CommandError):
            call("pgqueue_list", "--waits", text)

    @pytest.mark.parametrize("text", ["sleep", "signal:go"])
    def test_narrows_the_admins_list(
        self, admin_client: Any, waiting: dict[str, int], text: str
    ) -> None:
        ids = listed(admin_client, f"{MESSAGES}?waits={text}")

        assert set(ids) == found(text)
        assert admin_client.get(f"{MESSAGES}?waits=no").status_code == 302

    def test_is_found_among_the_longest_ones_where_there_are_many(
        self, waiting: dict[str, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index, "REACH", 0)

        answer = call("pgqueue_list", "--waits", "signal", "--format=json")

        assert len(answer.objects) == 1

    def test_narrows_an_operation(self, waiting: dict[str, int]) -> None:
        call("pgqueue_cancel", "--waits", "signal:go")

        assert not Message.objects.filter(pk=waiting["signal:go"]).exists()
        assert Message.objects.filter(pk=waiting["signal:approved"]).exists()
        assert bulk.Filter(waits="sleep").wanted().keys() == {"id"}


class TestShow:
    def test_has_the_steps_and_the_signals_of_a_live_and_an_ended_message(self) -> None:
        result = tasks.asks_late.enqueue(2)
        run_all(raise_errors=True)
        live = call("pgqueue_show", result.id, "--format=json").json
        signal(result, "go", 7)
        run_all(raise_errors=True)
        ended = call("pgqueue_show", result.id, "--format=json").json
        text = call("pgqueue_show", result.id).out

        assert [(each["name"], each["state"], each["result"]) for each in live["steps"]] == [
            ("add", "done", 3),
            ("double", "done", 6),
            ("wait:go", "waiting", None),
        ]
        assert live["steps"][2]["function"] == "builtins.int"
        assert ended["steps"][2]["result"]["payload"] == 7
        assert [each["taken_by"] for each in ended["signals"]] == ["wait:go"]
        assert ended["steps"][0]["started_at"].endswith("+00:00")
        assert "step 1 add step done 3\n" in text
        assert "taken by wait:go: 7" in text

    def test_has_the_sender_of_a_signal_and_the_signals_that_a_message_has_sent(self) -> None:
        result = tasks.asks_twice.enqueue()
        sender = tasks.approves.enqueue(int(result.id), 2)
        run_all(raise_errors=True)

        live = call("pgqueue_show", result.id, "--format=json").json
        text = call("pgqueue_show", sender.id).out
        signal(result, "go", 3)
        signal(result, "end", 4)
        run_all(raise_errors=True)
        ended = call("pgqueue_show", result.id, "--format=json").json

        assert [each["sender_id"] for each in live["signals"]] == [int(sender.id)]
        assert f"signal go to {result.id} at 20" in text
        assert "taken by wait:go\n" in text
        assert [each["sender_id"] for each in ended["signals"]] == [int(sender.id), None, None]
        assert f"signal go from {sender.id} at 20" in call("pgqueue_show", result.id).out
        assert "signal go to" not in call("pgqueue_show", sender.id).out

    def test_says_until_when_it_waits_and_why_a_step_failed(self) -> None:
        tasks.failing["on"] = True
        result = tasks.fails_slowly.enqueue()
        run_all()

        text = call("pgqueue_show", result.id).out

        assert "step 1 fails step retrying until 20" in text
        assert "builtins.ValueError: no" in text


class TestSignal:
    def test_is_sent_and_counts_once(self) -> None:
        result = tasks.asks_late.enqueue(2)
        options = ("--payload", "5", "--dedupe-id", "a")

        first = call("pgqueue_signal", result.id, "go", *options)
        again = call("pgqueue_signal", result.id, "go", *options, "--format=json")
        run_all(raise_errors=True)
        result.refresh()

        assert first.out == f"Sent go to message {result.id}.\n"
        assert again.json == {"id": int(result.id), "name": "go", "sent": False}
        assert result.return_value == 6 + 5 + 2

    def test_is_checked_by_the_type_of_the_wait_and_of_another_name_says_so(self) -> None:
        result = tasks.asks_then_naps.enqueue()
        run_all(raise_errors=True)

        with pytest.raises(CommandError, match="the payload of the signal 'go' can't be read"):
            call("pgqueue_signal", result.id, "go", "--payload", '"four"')
        other = call("pgqueue_signal", result.id, "no", "--payload", '"four"')
        fit = call("pgqueue_signal", result.id, "go", "--payload", "4")

        assert other.out == f"Sent no to message {result.id}. It waits for go.\n"
        assert fit.out == f"Sent go to message {result.id}.\n"
        assert list(StoredSignal.objects.values_list("name", flat=True)) == ["no", "go"]

    def test_keeps_the_digits_of_a_number(self) -> None:
        result = tasks.asks_late.enqueue(2)

        call("pgqueue_signal", result.id, "go", "--payload", "1.234567890123456789")

        assert "1.234567890123456789" in str(StoredSignal.objects.get().payload)

    def test_without_a_payload_carries_nothing(self) -> None:
        result = tasks.asks_late.enqueue(2)

        call("pgqueue_signal", result.id, "go")

        assert StoredSignal.objects.get().payload is None

    @pytest.mark.parametrize(
        ("words", "error"),
        [
            (("999999", "go"), "it has ended"),
            (("x", "go"), "the id of a message"),
            (("1", ""), "name=''"),
            (("1", "go", "--payload", "{"), "it must be JSON"),
        ],
    )
    def test_that_can_not_be_is_an_error(self, words: tuple[str, ...], error: str) -> None:
        with pytest.raises(CommandError, match=error):
            call("pgqueue_signal", *words)
