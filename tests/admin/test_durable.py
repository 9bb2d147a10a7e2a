"""The page of a message of a durable task, and the operations on it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.utils.html import strip_tags

from pgqueue import flow, task
from pgqueue.durable import signal
from pgqueue.models import History, Message, Step, StoredSignal
from pgqueue.operating import bulk
from pgqueue.tasks import rerunning
from pgqueue.testing import advance, run_all
from tests import encrypted_jobs, jobs
from tests.admin.acting import HISTORY, MESSAGES, act, told
from tests.durable import tasks

pytestmark = pytest.mark.django_db


@task
def pay(amount: Decimal) -> str:
    return str(amount)


@pytest.fixture(autouse=True)
def _calls() -> None:
    tasks.calls.clear()


def page(client: Client, id: Any, path: str = MESSAGES) -> Any:
    response: Any = client.get(f"{path}{id}/change/", follow=True)
    assert response.status_code == 200
    return response


def story(client: Client, id: Any) -> list[str]:
    return [strip_tags(str(line.text)) for line in page(client, id).context["story"]]


def waiting() -> Any:
    result = tasks.asks_late.enqueue(2)
    run_all(raise_errors=True)
    return result


def filled(shown: Any) -> dict[str, str]:
    """Return the values of a form's fields, as a browser would send them."""
    form = shown.context["form"]
    return {name: form[name].value() or "" for name in form.fields}


class TestThePage:
    def test_shows_the_steps_with_their_results_and_what_it_waits_for(self, viewer: Client) -> None:
        result = waiting()

        shown = page(viewer, result.id).context["durable"].steps

        assert [(row.step.name, row.state, row.result) for row in shown] == [
            ("add", "Done", "3"),
            ("double", "Done", "6"),
            ("wait:go", "Waiting", ""),
        ]
        assert story(viewer, result.id)[-1] == "It waits for the signal “go”."

    def test_shows_them_after_the_end(self, viewer: Client) -> None:
        result = waiting()
        signal(result, "go", 7, dedupe_id="a")
        run_all(raise_errors=True)

        seen = page(viewer, result.id).context["durable"]

        assert [row.step.name for row in seen.steps] == ["add", "double", "wait:go"]
        [sent] = seen.signals
        assert (sent.name, sent.payload, sent.signal.taken_by) == ("go", "7", "wait:go")

    def test_shows_who_has_sent_its_signals_and_what_the_sender_has_sent(
        self, viewer: Client
    ) -> None:
        result = tasks.asks_twice.enqueue()
        run_all(raise_errors=True)
        signal(result, "go", 1)
        sender = tasks.approves.enqueue(int(result.id), 2)
        run_all(raise_errors=True)

        shown = page(viewer, result.id).context["durable"]
        of_sender = page(viewer, sender.id, HISTORY).context["durable"]

        assert [strip_tags(row.sender) for row in shown.signals] == ["", f"#{sender.id}"]
        assert f"message/{sender.id}/change" in shown.signals[1].sender
        [sent] = of_sender.sent
        assert (sent.signal.name, sent.signal.taken_by) == ("go", "wait:go#2")
        assert f"message/{result.id}/change" in sent.receiver
        assert (shown.sent, of_sender.signals) == ([], [])
        told = page(viewer, sender.id, HISTORY).content.decode()
        assert "Signals from it, to live messages" in told

    def test_says_that_a_value_was_cut_also_where_it_is_redacted(
        self, viewer: Client, settings: Any
    ) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "REDACT": ["token"]}
        result = waiting()
        for payload in ({"token": "y" * 5_000}, {"token": "short"}):
            signal(result, "other", payload)

        shown = page(viewer, result.id).context["durable"].signals

        assert [row.payload.endswith(" …") for row in shown] == [True, False]
        assert "yyy" not in shown[0].payload

    def test_names_no_worker_of_a_run_that_waits(self, viewer: Client) -> None:
        result = waiting()

        assert "Attempt 1 was taken" in story(viewer, result.id)

    def test_says_until_when_it_sleeps(self, viewer: Client) -> None:
        result = tasks.naps.enqueue()
        run_all(raise_errors=True)

        assert story(viewer, result.id)[-1].startswith("It sleeps (“night”) until ")

    def test_says_which_step_is_tried_again(self, viewer: Client) -> None:
        tasks.failing["on"] = True
        result = tasks.fails_slowly.enqueue()
        run_all()

        assert story(viewer, result.id)[-1].startswith("The step “fails” is tried again: it waits")
        assert "ValueError" in page(viewer, result.id).content.decode()

    def test_says_which_event_it_waits_for(self, viewer: Client) -> None:
        result = tasks.pays.enqueue("7")
        run_all(raise_errors=True)

        said = story(viewer, result.id)[-1]

        assert said.startswith("It waits for the event “payment.settled”, until ")

    def test_links_to_the_messages_that_it_waits_for(self, viewer: Client) -> None:
        result = tasks.waits_for_slow.enqueue()
        run_all(raise_errors=True)
        child = Message.objects.exclude(pk=result.id).get()

        assert f"/message/{child.pk}/change/" in page(viewer, result.id).content.decode()
        assert story(viewer, result.id)[-1] == "It waits for the messages of the step “gather”."

    def test_of_a_plain_message_has_no_steps(self, viewer: Client) -> None:
        result = tasks.square.enqueue(3)

        assert "steps-heading" not in page(viewer, result.id).content.decode()

    def test_offers_nothing_to_those_who_may_only_look(self, viewer: Client) -> None:
        result = waiting()

        shown = page(viewer, result.id)

        assert shown.context["verbs"] == []
        assert [row.links for row in shown.context["durable"].steps] == [[], [], []]


class TestASignal:
    def test_is_sent_by_a_form_of_its_types_fields(self, operator: Client) -> None:
        result = tasks.asks.enqueue()
        run_all(raise_errors=True)
        path = f"{MESSAGES}{result.id}/signal/?name=approved"

        form = operator.get(path).context["form"]  # type: ignore[index]
        answer = operator.post(
            path,
            {
                "name": "approved",
                "dedupe_id": form["dedupe_id"].value(),
                "field_by": "ann",
                "field_pages": "[1, 2]",
            },
            follow=True,
        )
        run_all(raise_errors=True)
        result.refresh()

        assert [*form.fields] == ["name", "dedupe_id", "takes", "field_by", "field_pages"]
        assert told(answer) == ["The signal “approved” was sent."]
        assert result.return_value == "ann [1, 2]"
        assert LogEntry.objects.get().change_message == "The signal “approved” was sent."

    def test_counts_once_if_its_form_is_sent_twice(self, operator: Client) -> None:
        result = waiting()
        path, data = f"{MESSAGES}{result.id}/signal/", {"name": "go", "dedupe_id": "a"}

        for _ in range(2):
            answer = operator.post(path, {**data, "field_value": "5"}, follow=True)

        assert told(answer) == ["“go” was sent before."]
        assert StoredSignal.objects.get().payload == 5

    @pytest.mark.parametrize("value", ["x", "[1", ""])
    def test_says_which_field_does_not_fit(self, operator: Client, value: str) -> None:
        result = tasks.asks.enqueue()
        run_all(raise_errors=True)
        data = {"name": "approved", "dedupe_id": "a", "field_by": "ann", "field_pages": value}

        answer: Any = operator.post(f"{MESSAGES}{result.id}/signal/?name=approved", data)

        assert [*answer.context["form"].errors] == ["field_pages"]
        assert not StoredSignal.objects.exists()

    def test_may_have_any_json_if_nothing_says_its_type(self, operator: Client) -> None:
        result = tasks.asks.enqueue()
        data = {"name": "other", "dedupe_id": "a", "field_value": '{"a": [1.10]}'}

        operator.post(f"{MESSAGES}{result.id}/signal/", data)

        assert StoredSignal.objects.get().payload == {"a": [1.1]}

    def test_is_refused_if_the_wait_has_ended_since_its_form_was_shown(
        self, operator: Client
    ) -> None:
        result = tasks.asks.enqueue()
        run_all(raise_errors=True)
        path = f"{MESSAGES}{result.id}/signal/?name=approved"
        shown: Any = operator.get(path)
        Step.objects.filter(message_id=result.id).update(state="done")
        given = {"field_by": "ann", "field_pages": "[1]"}

        answer: Any = operator.post(path, {**filled(shown), **given})

        form = answer.context["form"]
        assert form.non_field_errors() == ["The signal takes other fields: give these."]
        assert [*form.fields][3:] == ["field_value"]
        assert form["field_value"].value() == ""
        assert not StoredSignal.objects.exists()
        operator.post(path, {**filled(answer), "field_value": "7"})
        assert StoredSignal.objects.get().payload == 7

    def test_that_is_named_in_the_form_takes_the_fields_of_its_wait(self, operator: Client) -> None:
        result = tasks.asks.enqueue()
        run_all(raise_errors=True)
        path = f"{MESSAGES}{result.id}/signal/"
        shown: Any = operator.get(path)

        answer: Any = operator.post(
            path, {**filled(shown), "name": "approved", "field_value": '{"by": 1}'}
        )

        assert [*answer.context["form"].fields][3:] == ["field_by", "field_pages"]
        assert not StoredSignal.objects.exists()
        given = {"field_by": "ann", "field_pages": "[1]"}
        operator.post(path, {**filled(answer), **given})
        assert StoredSignal.objects.get().payload == {"by": "ann", "pages": [1]}

    def test_to_a_message_that_has_ended_meanwhile_says_so(self, operator: Client) -> None:
        result = tasks.asks_late.enqueue(2)
        path, data = f"{MESSAGES}{result.id}/signal/", {"name": "go", "dedupe_id": "a"}
        result.cancel()

        answer: Any = operator.post(path, data, follow=True)

        assert told(answer) == ["Nothing was done: it has ended."]
        assert answer.redirect_chain[-1][0] == f"{HISTORY}{result.id}/change/"
        assert operator.post(f"{MESSAGES}999999/signal/", data).status_code == 404


class TestRunningNow:
    def test_ends_a_sleep(self, operator: Client) -> None:
        result = tasks.naps.enqueue()
        run_all(raise_errors=True)

        act(operator, "run_now", [int(result.id)])
        run_all(raise_errors=True)
        result.refresh()

        assert result.return_value == "awake"


def done_again(operator: Client, task: Any) -> Any:
    """Return the result of a run that died of its step `fails`, which an operator does again."""
    tasks.failing["on"] = True
    result = task.enqueue()
    run_all()
    tasks.failing["on"] = False

    operator.post(f"{MESSAGES}{result.id}/again/?step=fails")
    run_all()
    result.refresh()
    return result


class TestAStep:
    def test_is_done_again_and_those_after_it_are_not(self, operator: Client) -> None:
        result = waiting()

        answer = operator.post(f"{MESSAGES}{result.id}/again/?step=add", follow=True)
        run_all(raise_errors=True)

        assert told(answer) == ["The step “add” is done again."]
        assert tasks.calls == ["add", "double", "add"]
        assert Step.objects.filter(message_id=result.id).count() == 3
        signal(result, "go", 1)
        run_all(raise_errors=True)
        result.refresh()
        assert result.return_value == 9

    def test_of_a_dead_message_is_done_again_by_a_replay(self, operator: Client) -> None:
        assert done_again(operator, tasks.may_fail).return_value == "yes"

    def test_is_done_again_without_a_failure_before_it(self, operator: Client) -> None:
        assert done_again(operator, tasks.handles_a_failure).return_value == "yes"
        assert tasks.calls == ["refuses", "fails", "fails"]

    def test_that_has_taken_an_invalid_signal_waits_for_another_one(self, operator: Client) -> None:
        result = tasks.asks_then_naps.enqueue()
        signal(result, "go", "four")
        run_all()
        result.refresh()
        assert "UnreadablePayload" in result.errors[-1].traceback

        operator.post(f"{MESSAGES}{result.id}/again/?step=wait:go")
        signal(result, "go", 4)
        advance(timedelta(hours=1))
        run_all(raise_errors=True)

        assert Step.objects.get(message_id=result.id, name="wait:go").result["payload"] == 4
        taken = StoredSignal.objects.order_by("pk").values_list("payload", "taken_by")
        assert list(taken) == [("four", "wait:go"), (4, "wait:go")]

    def test_that_does_not_exist_is_no_reason_to_run(self, operator: Client) -> None:
        result = waiting()

        answer = operator.post(f"{MESSAGES}{result.id}/again/?step=no", follow=True)

        assert told(answer) == ["Nothing was done: it runs now, or has no such step."]
        assert Message.objects.get(pk=result.id).state == "held"


class TestAFork:
    @pytest.mark.parametrize("is_ended", [True, False])
    def test_begins_after_a_step_with_other_arguments(
        self, operator: Client, is_ended: bool
    ) -> None:
        result, path = waiting(), MESSAGES
        if is_ended:
            signal(result, "go", 1)
            run_all(raise_errors=True)
            path = HISTORY

        answer = operator.post(
            f"{path}{result.id}/fork/?after=add", {"arguments": '{"args": [100]}'}, follow=True
        )
        run_all(raise_errors=True)
        forked = Message.objects.latest("pk")

        assert told(answer) == [f"Forked as #{forked.pk}, after the step “add”."]
        assert tasks.calls == ["add", "double", "double"]
        assert f"as a fork of #{result.id} after the step “add”" in story(operator, forked.pk)[0]

    def test_with_arguments_that_do_not_fit_says_so(self, operator: Client) -> None:
        result = waiting()
        path = f"{MESSAGES}{result.id}/fork/"

        refused: Any = operator.post(path, {"arguments": "[1]"})
        answer = operator.post(path, {"arguments": '{"args": [1, 2, 3]}'}, follow=True)

        assert [*refused.context["form"].errors] == ["arguments"]
        assert "too many" in told(answer)[0]
        assert Message.objects.count() == 1

    def test_after_a_step_that_was_never_done_says_so(self, operator: Client) -> None:
        result = waiting()

        answer = operator.post(f"{MESSAGES}{result.id}/fork/?after=ad", follow=True)

        assert "Did you mean 'add'?" in told(answer)[0]


class TestARerun:
    def test_is_marked_in_the_story_of_the_new_message(self, operator: Client) -> None:
        result = tasks.square.enqueue(3)
        run_all(raise_errors=True)

        shown = operator.get(f"{HISTORY}{result.id}/rerun/")
        answer = operator.post(f"{HISTORY}{result.id}/rerun/", follow=True)
        again = Message.objects.get()

        assert shown.status_code == 200
        assert told(answer) == [f"Enqueued once more as #{again.pk}."]
        assert again.payload == {"args": [3], "kwargs": {}}
        assert f"as a rerun of #{result.id}" in story(operator, again.pk)[0]
        assert LogEntry.objects.get().object_id == str(result.id)
        run_all(raise_errors=True)
        assert History.objects.get(pk=again.pk).result == 9

    def test_keeps_the_digits_of_other_arguments(self, operator: Client) -> None:
        result = pay.enqueue(Decimal(1))
        run_all(raise_errors=True)
        digits = "1.234567890123456789"

        operator.post(f"{HISTORY}{result.id}/rerun/", {"arguments": f'{{"args": [{digits}]}}'})

        [again] = run_all(raise_errors=True)
        assert again.return_value == digits

    def test_is_shown_on_the_page_of_the_message_that_was_run_before(
        self, operator: Client
    ) -> None:
        result = tasks.square.enqueue(3)
        run_all(raise_errors=True)
        operator.post(f"{HISTORY}{result.id}/rerun/")
        waits = Message.objects.get().pk

        assert f"message/{waits}/change" in page(operator, result.id, HISTORY).context["copies"]
        run_all(raise_errors=True)  # the rerun is in history, too
        shown = page(operator, result.id, HISTORY)
        assert f"message/{waits}/change" in shown.context["copies"]
        assert "Its reruns and forks" in shown.content.decode()
        assert page(operator, waits, HISTORY).context["copies"] == ""

    def test_may_have_other_arguments(self, operator: Client) -> None:
        result = tasks.square.enqueue(3)
        run_all(raise_errors=True)

        answer = operator.post(
            f"{HISTORY}{result.id}/rerun/", {"arguments": '{"args": [7]}'}, follow=True
        )
        again = Message.objects.get()

        said = f"Enqueued once more as #{again.pk}, with other arguments."
        assert told(answer) == [said]
        assert LogEntry.objects.get().change_message == said
        assert again.metadata == {"rerun_of": int(result.id)}
        run_all(raise_errors=True)
        assert History.objects.get(pk=again.pk).result == 49

    def test_with_arguments_that_do_not_fit_says_so(self, operator: Client) -> None:
        result = tasks.square.enqueue(3)
        run_all(raise_errors=True)
        path = f"{HISTORY}{result.id}/rerun/"

        refused: Any = operator.post(path, {"arguments": "[1]"})
        answer = operator.post(path, {"arguments": '{"args": [1, 2, 3]}'}, follow=True)

        assert [*refused.context["form"].errors] == ["arguments"]
        assert "too many" in told(answer)[0]
        assert not Message.objects.exists()

    def test_shows_no_stored_argument_in_its_form(self, operator: Client) -> None:
        kept = encrypted_jobs.keep.enqueue("gold")
        paid = tasks.pays_by_card.enqueue(tasks.CARD)
        Message.objects.update(state="dead")

        for result, secret in ((kept, "gold"), (paid, tasks.CARD)):
            shown = operator.get(f"{MESSAGES}{result.id}/rerun/")
            assert not shown.context["form"]["arguments"].value()
            assert secret not in shown.content.decode()

    def test_of_an_encrypted_message_keeps_its_arguments_or_encrypts_other_ones(
        self, operator: Client
    ) -> None:
        result = encrypted_jobs.keep.enqueue("gold")
        run_all(raise_errors=True)
        path = f"{HISTORY}{result.id}/rerun/"

        operator.post(path, {"arguments": ""})
        operator.post(path, {"arguments": '{"args": ["silver"]}'})

        assert "silver" not in str(list(Message.objects.values_list("payload", "metadata")))
        assert [each.return_value for each in run_all(raise_errors=True)] == [
            "gold, kept",
            "silver, kept",
        ]
        assert "silver" not in str(list(LogEntry.objects.values_list("change_message")))

    def test_takes_no_mask_for_a_value(self, operator: Client) -> None:
        result = tasks.pays_by_card.enqueue(tasks.CARD)
        Message.objects.update(state="dead")

        refused: Any = operator.post(
            f"{MESSAGES}{result.id}/rerun/", {"arguments": '{"kwargs": {"card": "[redacted]"}}'}
        )

        assert "Write a value in the place of each [redacted]" in str(
            refused.context["form"].errors["arguments"]
        )
        assert Message.objects.count() == 1

    def test_of_our_own_task_takes_no_other_arguments(self, operator: Client) -> None:
        """Else an operator could have an event posted, and signed, that never happened."""
        message = Message.objects.create(
            task="pgqueue.events.later.publish_now",
            payload={"args": ["order.paid", "7", "{}", "{}"]},
            state="dead",
            max_attempts=5,
            channel="default",
        )
        path = f"{MESSAGES}{message.pk}/rerun/"

        shown = operator.get(path)
        operator.post(path, {"arguments": '{"args": ["order.paid", "7", "{}", "forged"]}'})

        assert "arguments" not in shown.context["form"].fields
        again = Message.objects.exclude(pk=message.pk).get()
        assert again.payload["args"] == ["order.paid", "7", "{}", "{}"]

    def test_of_a_bulk_operation_is_refused(self, operator: Client) -> None:
        message = Message.objects.create(
            task=bulk.TASKS[0],
            payload={"args": [1]},
            state="dead",
            max_attempts=5,
            channel="default",
        )

        shown = operator.get(f"{MESSAGES}{message.pk}/change/", follow=True).content.decode()
        operator.post(f"{MESSAGES}{message.pk}/rerun/")

        assert "Enqueue it once more" not in shown
        assert Message.objects.count() == 1

    def test_of_a_task_that_is_not_known_is_refused(self, operator: Client) -> None:
        result = tasks.square.enqueue(3)
        Message.objects.update(task="shop.gone", state="dead")

        answer = operator.post(f"{MESSAGES}{result.id}/rerun/", follow=True)

        assert told(answer) == ["“shop.gone” is not known here, or not durable."]
        assert Message.objects.count() == 1

    def test_says_that_the_database_has_failed(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read_missing_table(*given: Any) -> str:
            with connection.cursor() as cursor:
                cursor.execute("SELECT FROM missing")
            return ""

        with flow("sums") as f:
            result = f.enqueue(jobs.anything, f.enqueue(jobs.add, 1, b=1))
        run_all(raise_errors=True)
        monkeypatch.setattr(rerunning, "_with_results", read_missing_table)

        answer = operator.post(f"{HISTORY}{result.id}/rerun/", follow=True)

        assert told(answer) == ["The database has failed. The server's log has the error."]
        assert not Message.objects.exists()
