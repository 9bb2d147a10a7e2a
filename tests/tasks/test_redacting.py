"""What tasks and settings say that nobody is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from pgqueue import InvalidTask, flow, task
from pgqueue.models import Message
from pgqueue.redaction import MASK
from pgqueue.tasks import Task, redacting
from pgqueue.testing import run_all
from tests.cards import (
    CARD,
    NUMBER,
    TOKEN,
    charge,
    charge_all,
    decline,
    decline_async,
    decline_atomically,
    dispute,
    issue,
    note,
    sign_in,
)


def payload(of: Task[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the payload of a call as it is shown."""
    text = of.codec.encode(args, kwargs)
    shown, _ = redacting.rules(of.name).redact({"payload": text})
    found: dict[str, Any] = json.loads(shown["payload"] or "")
    return found


def test_an_argument_is_redacted_by_its_name_and_by_its_position() -> None:
    user = {"email": "ada@example.org", "name": "Ada"}
    seen = {"email": MASK, "name": "Ada"}

    assert payload(charge, 7, CARD, user) == {"args": [7, MASK, seen], "kwargs": {}}
    assert payload(charge, 7, card=CARD, user=user) == {
        "args": [7],
        "kwargs": {"card": MASK, "user": seen},
    }
    assert payload(note, CARD) == {"args": [MASK], "kwargs": {}}  # not counting its context


def test_the_rest_of_the_arguments_may_be_redacted() -> None:
    assert payload(charge_all, 7, CARD, CARD, options={"card": CARD, "to": "Ada"}) == {
        "args": [7, MASK, MASK],
        "kwargs": {"options": {"card": MASK, "to": "Ada"}},
    }


def test_an_argument_with_the_name_of_a_field_is_redacted_though_the_payload_has_no_names() -> None:
    assert payload(sign_in, "Ada", TOKEN) == {"args": ["Ada", MASK], "kwargs": {}}


def test_what_is_redacted_of_the_arguments_is_hidden_in_other_columns() -> None:
    columns = {
        "payload": charge.codec.encode((7, CARD), {}),
        "result": json.dumps({"receipt": "R-7", "said": f"charged {CARD}"}),
        "metadata": json.dumps({"authorization": TOKEN, "for": NUMBER}),
        "progress": json.dumps([f"Bearer {TOKEN}"]),
        "options": None,
    }

    shown, hidden = redacting.rules(charge.name).redact(columns)

    assert json.loads(shown["result"] or "") == {"receipt": MASK, "said": f"charged {MASK}"}
    assert json.loads(shown["metadata"] or "") == {"authorization": MASK, "for": NUMBER}
    assert json.loads(shown["progress"] or "") == [f"Bearer {MASK}"]
    assert shown["options"] is None
    assert hidden(f"no {CARD}, no R-7") == f"no {MASK}, no R-7"


def test_without_a_task_that_is_known_the_names_of_fields_hold() -> None:
    columns = {"payload": json.dumps({"card": CARD, "api_key": TOKEN})}
    seen = {"card": CARD, "api_key": MASK}

    for name in ("", "no.such.task"):
        shown, _ = redacting.rules(name).redact(columns)
        assert json.loads(shown["payload"] or "") == seen


def test_the_names_of_the_settings_hold_as_soon_as_they_are_changed() -> None:
    assert payload(sign_in, "Ada", TOKEN)["args"] == ["Ada", MASK]

    with override_settings(PGQUEUE={**settings.PGQUEUE, "REDACT": ["name"]}):
        assert payload(sign_in, "Ada", TOKEN)["args"] == [MASK, TOKEN]
        assert payload(decline, CARD)["args"] == [MASK]  # as the task says


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["crad"], "redact names 'crad', but it has no argument 'crad'. Did you mean 'card'"),
        (["usr.email"], "redact names 'usr.email', but it has no argument 'usr'"),
        (["context"], "it has no argument 'context'"),
        ("card", "it must be a list of names"),
        (["a..b"], "the path 'a..b' has an empty name"),
    ],
)
def test_a_task_that_redacts_what_it_has_not_is_refused(paths: Any, said: str) -> None:
    def pay(context: Any, card: str, user: Any) -> None: ...

    pay.__qualname__ = "pay"

    with pytest.raises(InvalidTask, match=said):
        task(redact=paths, takes_context=True)(pay)


def test_what_is_redacted_belongs_to_the_function() -> None:
    with pytest.raises(InvalidTask, match="redact belongs to the function"):
        charge.using(redact=["order"])  # type: ignore[call-arg]


@pytest.mark.django_db
@pytest.mark.parametrize("task", [decline, decline_atomically, decline_async])
def test_an_argument_that_is_a_result_is_hidden_in_an_error_that_quotes_it(
    task: Task[..., Any],
) -> None:
    with flow("declined") as f:
        f.enqueue(task, f.enqueue(issue))

    run_all()

    [error] = Message.objects.get().errors
    assert error["message"] == f"'{MASK}' was declined"
    assert CARD not in json.dumps(error)


@pytest.mark.django_db
def test_what_a_task_redacts_of_its_result_is_hidden_in_errors_of_what_takes_that() -> None:
    with flow("disputed") as f:
        f.enqueue(dispute, f.enqueue(charge, 7, CARD))

    run_all()

    [error] = Message.objects.get().errors
    assert error["message"] == f"{MASK} is disputed"
    assert CARD not in json.dumps(error)
