"""The examples of the guides to durable tasks do what the pages say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.http import HttpResponseRedirect
from django.test import Client, RequestFactory

from pgqueue import signal
from pgqueue.models import Message, Step
from pgqueue.tasks import TaskResult
from pgqueue.testing import advance, run_all
from tests.docs.blocks import blocks

pytestmark = pytest.mark.django_db

Load = Callable[[str], Any]


@pytest.fixture
def load(own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A function that returns the Python of a page as a module."""

    def load(page: str) -> ModuleType:
        module = ModuleType("example")
        monkeypatch.setitem(sys.modules, "example", module)
        code = "\n".join(block.code for block in blocks(f"docs/guide/{page}", "python"))
        exec(compile(code, page, "exec"), vars(module))  # noqa: S102
        return module

    return load


def ended(result: TaskResult[Any]) -> Any:
    """Run what is ready; return the return value of a message."""
    run_all(raise_errors=True)
    result.refresh()
    return result.return_value


def test_people_decide(load: Load, client: Client) -> None:
    page = load("durable-people.md")
    agreed, refused = page.refund.enqueue(7, "boss@a.b"), page.refund.enqueue(8, "boss@a.b")
    run_all(raise_errors=True)
    [yes, _], [_, no] = ([line.split()[1] for line in m.body.splitlines()] for m in mail.outbox)

    assert "Refund order 7?" in client.get(yes).content.decode()
    assert ">Refuse</button>" in client.get(no).content.decode()
    client.post(yes)
    client.post(no)

    assert ended(agreed) == "order 7 is paid back"
    assert ended(refused) == "refused"

    nobody = page.refund.enqueue(9, "boss@a.b")
    run_all(raise_errors=True)
    advance(timedelta(days=7))
    run_all()
    nobody.refresh()
    assert nobody.status == "cancelled"

    may_answer = page.may_answer
    request = RequestFactory().get("/")
    link = SimpleNamespace(recipient="ann@a.b")
    request.user = SimpleNamespace(is_authenticated=False)
    assert isinstance(may_answer(request, link), HttpResponseRedirect)
    request.user = SimpleNamespace(is_authenticated=True, email="ann@a.b")
    assert may_answer(request, link)
    assert page.urlpatterns[0].name == "pgqueue_signal"

    mail.outbox.clear()
    voted, in_vain = (page.vote.enqueue([f"{a}@a.b" for a in "xyz"], 2) for _ in range(2))
    run_all(raise_errors=True)
    first, second, third, *_ = (each.body for each in mail.outbox)
    client.post(first)
    client.post(first)
    run_all(raise_errors=True)
    voted.refresh()
    assert voted.status == "scheduled"
    client.post(third)
    assert ended(voted) is True
    assert client.post(second).status_code == 410
    advance(timedelta(days=3))
    assert ended(in_vain) is False

    confirming = page.confirm_address.using(dedupe_key="sign-up:5").enqueue("ada@a.b")
    mail.outbox.clear()
    run_all(raise_errors=True)
    advance(timedelta(days=2))
    run_all(raise_errors=True)
    assert [each.subject for each in mail.outbox] == ["Reminder 1", "Reminder 2"]
    page.confirm(5)
    assert ended(confirming) == "confirmed"
    page.confirm(5)


def test_a_saga_undoes_what_it_did(load: Load) -> None:
    page = load("durable-sagas.md")

    trip = page.book_trip.enqueue(1)
    run_all(retries=True)
    trip.refresh()

    assert trip.return_value == "not booked: There is no car."
    assert page.booked == []
    paid = page.pay.enqueue(3)
    assert ended(paid).startswith("charged once with ")
    assert ended(page.open_account.enqueue("ada")) == "renamed"
    assert Group.objects.get().name == "ada (open)"


def test_a_loop_begins_anew(load: Load) -> None:
    page = load("durable-loops.md")
    result = page.subscription.using(dedupe_key="subscription:ada").enqueue("ada")

    run_all(raise_errors=True)
    advance(timedelta(days=30))
    run_all(raise_errors=True)
    signal(None, "paused", dedupe_key="subscription:ada")
    run_all(raise_errors=True)
    advance(timedelta(days=30))
    run_all(raise_errors=True)
    assert page.bills == ["ada 1", "ada 2"]
    assert Step.objects.filter(message_id=result.id).count() == 3
    signal(None, "resumed", dedupe_key="subscription:ada")
    run_all(raise_errors=True)
    signal(None, "cancelled", dedupe_key="subscription:ada")

    assert ended(result) == "cancelled after 3 months"
    assert ended(page.import_rows.enqueue()) == 5000

    page.bills.clear()
    page.watch.enqueue()
    run_all(raise_errors=True)
    advance(timedelta(hours=1))
    run_all(raise_errors=True)
    assert page.bills == ["watch 0"] * 2
    Message.objects.all().delete()


def test_an_agent_asks_and_is_answered(load: Load) -> None:
    page = load("durable-agents.md")
    agreed, refused = (page.support_agent.enqueue("My order is damaged.") for _ in range(2))
    run_all(raise_errors=True)

    assert Message.objects.get(pk=agreed.id).progress == {"turn": 2, "doing": "refund"}
    agreed.signal("approve refund", True)
    refused.signal("approve refund", False)

    assert ended(agreed) == ended(refused) == "Order 7 is paid back."
    done = [each["name"] for each in steps_of(agreed)]
    assert done == [
        *("ask_model", "find_order", "ask_model#2", "wait:approve refund", "refund"),
        "ask_model#3",
    ]
    assert "refund" not in [each["name"] for each in steps_of(refused)]


def steps_of(result: TaskResult[Any]) -> list[dict[str, Any]]:
    from pgqueue.models import History

    steps: list[dict[str, Any]] = History.objects.get(pk=result.id).steps["steps"]
    return steps
