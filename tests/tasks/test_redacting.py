"""What tasks and settings say that nobody is shown."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from pgqueue import InvalidTask, flow, task
from pgqueue.calls.stand_ins import stand_in
from pgqueue.codec.encoding import Returned
from pgqueue.engine.values import Claim
from pgqueue.models import Message
from pgqueue.redaction import FIELDS, MASK, MOST_SHOWN, Redactor
from pgqueue.tasks import Task, redacting
from pgqueue.testing import run_all
from tests.cards import (
    CARD,
    NUMBER,
    TOKEN,
    charge,
    charge_all,
    charge_by,
    decline,
    decline_async,
    decline_atomically,
    dispute,
    issue,
    note,
    sign_in,
    sign_in_by,
)
from tests.factories import Connection, claim, enqueue


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


def test_arguments_of_any_name_may_be_redacted() -> None:
    assert payload(charge_all, order=7, card=CARD, to={"card": "his"}) == {
        "args": [],
        "kwargs": {"order": 7, "card": MASK, "to": {"card": "his"}},
    }
    assert payload(charge_by, 7, to="Ada", card=CARD, other={"number": NUMBER}) == {
        "args": [7],
        "kwargs": {"to": "Ada", "card": MASK, "other": MASK},
    }
    assert payload(sign_in_by, "Ada", name="Ada", pin=1) == {
        "args": ["Ada"],
        "kwargs": {"name": MASK, "pin": MASK},
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


def test_a_name_with_a_capital_i_of_turkish_is_found_however_it_is_written() -> None:
    shown = Redactor(("ŞİFRE",)).redact('{"ŞİFRE": 1, "şifre": 2, "yeni_şifre": 3, "fre": 4}')

    assert [*json.loads(shown).values()] == [MASK, MASK, MASK, 4]


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


def test_an_error_of_a_task_of_our_own_shows_no_local_variable(queue: Connection) -> None:
    """They are URLs, headers and secrets of webhooks, which no rule for arguments knows."""
    ids = enqueue(queue, task="pgqueue.webhooks.delivering.deliver")
    (own,) = [each for each in claim(queue) if each.id in ids]
    try:
        raise ValueError("no answer")
    except ValueError as raised:
        shown = stand_in(raised, redacting.hiding(own))

    trace = shown.__traceback__
    assert trace is not None
    assert trace.tb_frame.f_code.co_name.startswith("test_an_error")
    assert trace.tb_frame.f_locals == {}


def claimed(payload: bytes, *taken: Returned) -> Claim:
    """Return a claim, with what it took of others."""
    claim = Claim(*[None] * len(Claim._fields))  # type: ignore[arg-type]
    return claim._replace(
        task=charge.name,
        payload=payload,
        metadata=b"{}",
        taken=tuple((number, each) for number, each in enumerate(taken)),
    )


class TestAFailure:
    def test_of_a_wide_fan_in_is_redacted_without_a_look_at_the_results(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thousand results of 60 kB kept the interpreter busy until their leases were lost."""
        monkeypatch.setattr(redacting, "to_text", pytest.fail)
        plain = [{"token": CARD, "rest": "x" * 60_000}]
        claim = claimed(b"{}", *[Returned(issue.name, plain, size=60_040)] * 1000)

        began = time.process_time()
        shown = stand_in(ValueError(f"{CARD} was declined"), redacting.hiding(claim))

        assert time.process_time() - began < 1
        assert str(shown) == redacting.NOT_LOOKED_THROUGH
        assert type(shown).__name__ == "ValueError"

    def test_of_large_arguments_is_shown_where_nothing_may_be_redacted(self) -> None:
        payload = json.dumps({"args": ["x" * 60_000] * 20}).encode()
        claim = claimed(payload)._replace(task="unknown")

        shown = stand_in(ValueError("was declined"), redacting.hiding(claim))

        assert str(shown) == "was declined"

    def test_of_large_arguments_with_a_secret_is_hidden(self) -> None:
        payload = json.dumps({"args": [{"token": CARD}, *["x" * 60_000] * 20]}).encode()
        claim = claimed(payload)._replace(task="unknown")

        shown = stand_in(ValueError(f"{CARD} was declined"), redacting.hiding(claim))

        assert str(shown) == redacting.NOT_LOOKED_THROUGH

    def test_that_says_a_lot_is_looked_through_no_further_than_it_is_stored(self) -> None:
        hidden = redacting.hiding(claimed(json.dumps({"kwargs": {"token": CARD}}).encode()))
        error = ValueError(CARD + "y" * (MOST_SHOWN - 2 * len(CARD) + 9) + CARD * 1000)

        shown = str(stand_in(error, hidden))

        assert len(shown) <= MOST_SHOWN + len(MASK)
        assert shown.startswith(MASK)
        assert CARD[:5] not in shown


@given(
    st.lists(
        st.sampled_from(
            [
                "api",
                "key",
                "Token",
                "_",
                "-",
                " ",
                '"',
                "x",
                "ü",
                "PIN",
                "\u2013",
                "\u212a",
                "PİN",
                "{",
                "1",
            ]
        )
    ).map("".join),
    st.sampled_from([FIELDS, ("Schlüssel", "api–key", "ŞİFRE"), ()]),
)
def test_what_may_be_redacted_is_what_mentions_a_field(text: str, fields: tuple[str, ...]) -> None:
    redactor = Redactor(fields)

    assert redactor.may_redact(text) == bool(redactor.mention.search(text))
