"""No page and no command shows a redacted value of a step, a signal or their errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pgqueue.durable import redactors, signal
from pgqueue.exceptions import InvalidTask
from pgqueue.models import Message, Step
from pgqueue.redaction import MASK
from pgqueue.tasks import redacting
from pgqueue.testing import run_all
from tests.admin.acting import MESSAGES
from tests.durable import tasks
from tests.durable.tasks import CARD, CODE, PIN
from tests.management.calling import call

pytestmark = pytest.mark.django_db

ANSWER = "the-answer-is-42"
SECRETS = (CARD, CODE, PIN, ANSWER)


@pytest.mark.parametrize("state", ["waiting", "dead", "cancelled"])
def test_a_redacted_value_is_shown_nowhere(admin_client: Client, state: str) -> None:
    result = tasks.pays_by_card.enqueue(CARD)
    run_all()
    signal(result, "approved", {"answer": ANSWER, "by": "ann"})
    if state == "dead":
        run_all()
    elif state == "cancelled":
        result.cancel()

    page = admin_client.get(f"{MESSAGES}{result.id}/change/", follow=True).content.decode()
    shown = call("pgqueue_show", result.id, "--format=json").out

    for text in (page, shown, call("pgqueue_show", result.id).out):
        assert [each for each in SECRETS if each in text] == []
        assert MASK in text and "ann" in text
    found: Any = json.loads(shown)
    assert found["steps"][0]["result"] == {
        "receipt": {"number": f"paid by {MASK}"},
        "pin": MASK,
        "code": MASK,
        "ok": 1,
    }
    assert found["signals"][0]["payload"] == {"answer": MASK, "by": "ann"}


def test_a_redacted_result_of_a_call_is_shown_nowhere(admin_client: Client) -> None:
    result = tasks.issues_cards.enqueue()
    run_all()

    page = admin_client.get(f"{MESSAGES}{result.id}/change/", follow=True).content.decode()
    shown = call("pgqueue_show", result.id, "--format=json").out

    for text in (page, shown, call("pgqueue_show", result.id).out):
        assert [each for each in (CODE, CARD) if each in text] == []
        assert MASK in text and "a bank" in text


@pytest.mark.parametrize("length", [100, 1000])
def test_a_redacted_result_of_a_call_is_not_shown_where_it_is_cut_off(length: int) -> None:
    rows = [{"task": tasks.issue.name, "result": {"code": CODE}}] * 9
    text = json.dumps({"ids": [1], "returned": rows})[:length]

    by = redactors.of_step(tasks.gathers.name, "call", "gather", None, text)

    assert CODE not in by.redact(text) and MASK in by.redact(text)


def test_a_value_that_is_encrypted_is_not_shown(admin_client: Client, settings: Any) -> None:
    from cryptography.fernet import Fernet

    settings.PGQUEUE = {"ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    result = tasks.secret.enqueue(1)
    run_all(raise_errors=True)

    page = admin_client.get(f"{MESSAGES}{result.id}/change/").content.decode()
    found = call("pgqueue_show", result.id, "--format=json").json

    assert page.count("encrypted") >= 4
    assert "gAAAA" not in page
    assert {each["result"] for each in found["steps"]} == {"encrypted", None}


class TestAPath:
    def test_of_an_argument_holds_for_results_and_payloads_too(self) -> None:
        name = tasks.pays_by_card.name

        for part in ("steps", "signals"):
            by = redacting.rules_of_part(name, part, "other")  # type: ignore[arg-type]
            assert by.redact('{"card": 1, "code": 2}') == f'{{"card": "{MASK}", "code": 2}}'

    def test_of_a_step_holds_for_each_of_its_repetitions(self) -> None:
        by = redacting.rules_of_part(tasks.pays_by_card.name, "steps", "charge#12")

        assert by.redact('{"code": 2}') == f'{{"code": "{MASK}"}}'

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("order", "order #7"),
            ("order", "order#7"),
            ("order #7", "order #7"),
            ("order #7", "order #7#2"),
            ("order.paid", "order.paid"),
            ("order.paid.code", "order.paid#2"),
        ],
    )
    @pytest.mark.parametrize("part", ["steps", "signals"])
    def test_finds_a_name_with_a_number_or_a_dot(
        self, part: Any, path: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = replace(tasks.pays_by_card, redact=(f"{part}.{path}",))
        monkeypatch.setattr(redacting, "_declared", lambda name: task)

        text = '{"code": "secret"}'

        assert redacting.rules_of_part(task.name, part, name).redact(text) != text
        assert redacting.rules_of_part(task.name, part, "orders").redact(text) == text

    @pytest.mark.parametrize("path", ["steps", "stps.charge", "signals"])
    def test_that_names_nothing_is_refused(self, path: str) -> None:
        with pytest.raises(InvalidTask, match="has no argument"):
            redacting.check(replace(tasks.pays_by_card, redact=(path,)))

    def test_of_steps_is_refused_for_a_task_without_steps(self) -> None:
        with pytest.raises(InvalidTask, match="has no argument"):
            redacting.check(replace(tasks.square, redact=("steps.charge",)))


def test_what_another_program_stored_is_shown_all_the_same(admin_client: Client) -> None:
    result = tasks.asks_late.enqueue(2)
    run_all(raise_errors=True)
    odd = {"kind": "call", "state": "done", "attempt": 1, "tries": 1, "started_at": timezone.now()}
    for number, value in enumerate(
        [[], {"ids": [1]}, {"ids": 3}, {"ids": ["a", None]}, {"a": 1}, "x"]
    ):
        Step.objects.create(
            message_id=result.id,
            name=f"odd {number}",
            number=9 + number,
            result=value,
            error=[1],
            **odd,
        )
    Message.objects.filter(pk=result.id).update(metadata={"forked_from": "x", "rerun_of": [1]})

    assert admin_client.get(f"{MESSAGES}{result.id}/change/").status_code == 200
    assert call("pgqueue_show", result.id).out
