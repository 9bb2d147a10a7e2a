"""Signed links by which people answer a durable run."""

from __future__ import annotations

import base64
import zlib
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from cryptography.fernet import Fernet
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils import timezone
from pytest_django import Settings

from pgqueue import InvalidArgument, InvalidStep
from pgqueue.conf import read
from pgqueue.durable.links import SALT, SignalLink, link_view
from pgqueue.models import Message, StoredSignal
from pgqueue.tasks import TaskResult
from pgqueue.testing import advance, run_all
from tests.durable import link_tasks
from tests.durable.link_tasks import sent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


def asked(task: Any, *args: Any) -> TaskResult[Any]:
    """Return the message of a run that waits for an answer."""
    result: TaskResult[Any] = task.enqueue(*args)
    run_all(raise_errors=True)
    return result


def returned(result: TaskResult[Any]) -> Any:
    run_all(raise_errors=True)
    result.refresh()
    return result.return_value


def test_a_get_shows_a_page_and_a_post_sends_the_signal(client: Client) -> None:
    result = asked(link_tasks.asks)
    _, no = sent

    page = client.get(no)

    assert "Refund 40 €?" in page.content.decode()
    assert page["Referrer-Policy"] == "same-origin"
    assert page["X-Frame-Options"] == "DENY"
    assert "no-store" in page["Cache-Control"]
    assert not StoredSignal.objects.exists()

    assert "Your answer was sent" in client.post(no).content.decode()
    assert returned(result) == "no"


def test_a_link_is_of_a_message_whose_own_metadata_say_continued(client: Client) -> None:
    result = asked(link_tasks.asks.using(metadata={"continued": "from a page"}))

    client.post(sent[0])

    assert returned(result) == "yes"


def test_the_first_answer_to_a_question_counts(client: Client) -> None:
    result = asked(link_tasks.asks)
    yes, no = sent

    client.post(yes)

    assert "answered already" in client.post(yes).content.decode()
    assert "answered already" in client.post(no).content.decode()
    assert "answered already" in client.get(no).content.decode()
    assert returned(result) == "yes"
    ended = client.post(no)
    assert (ended.status_code, "Nobody waits" in ended.content.decode()) == (410, True)


def test_a_later_wait_for_the_same_name_is_another_question(client: Client) -> None:
    result = asked(link_tasks.asks_twice)

    assert '<textarea name="why"' in client.get(sent[0]).content.decode()
    client.post(sent[0], {"why": "since\0 it's due", "number": "7"})
    run_all(raise_errors=True)
    first, second = sent
    client.post(first, {"why": "again"})
    client.post(second, {"why": "fine"})

    assert returned(result) == ["1 since it's due", "2 fine"]


@pytest.mark.parametrize(
    "name", ["order #7", "paid|cancelled", "x" * 150], ids=["hash", "bar", "long"]
)
def test_a_later_question_is_another_one_whatever_its_name_is(client: Client, name: str) -> None:
    result = asked(link_tasks.asks_for_any, name)

    client.post(sent[0])
    run_all(raise_errors=True)
    client.post(sent[1])

    assert returned(result) == [1, 2]


def test_a_link_of_an_earlier_round_answers_nothing(client: Client) -> None:
    result = asked(link_tasks.asks_anew, 1)
    client.post(sent[0])
    run_all(raise_errors=True)
    first, second = sent

    assert client.post(first).status_code == 410
    result.refresh()
    assert result.status == "held"
    client.post(second)
    assert returned(result) == 2


@pytest.mark.parametrize("recipient", ["", "ann"])
def test_a_link_of_a_wait_that_is_over_answers_no_later_question(
    client: Client, recipient: str
) -> None:
    result = asked(link_tasks.asks_again, recipient)
    advance(timedelta(hours=1))
    run_all(raise_errors=True)
    first, second = sent

    assert client.get(first).status_code == client.post(first).status_code == 410
    assert not StoredSignal.objects.exists()
    client.post(second)
    assert returned(result) == [None, True]


def test_a_link_answers_no_later_question_where_another_program_has_answered(
    client: Client,
) -> None:
    result = asked(link_tasks.asks_again, "")
    result.signal("decided", True)
    run_all(raise_errors=True)

    assert client.post(sent[0]).status_code == 410
    client.post(sent[1])
    assert returned(result) == [True, True]


def test_a_recipient_may_answer_after_another_one(client: Client) -> None:
    result = asked(link_tasks.asks_each)

    for url in reversed(sent):
        client.post(url)
        run_all(raise_errors=True)

    assert returned(result) == "bob ann"


def test_each_recipient_has_a_question_of_their_own(client: Client) -> None:
    result = asked(link_tasks.asks_each)

    for url in (*sent, *sent):
        client.post(url)

    assert returned(result) == "ann bob"


def test_a_link_expires(client: Client) -> None:
    asked(link_tasks.asks)

    with time_machine.travel(timezone.now() + timedelta(days=7, minutes=1), tick=False):
        page = client.post(sent[0])

    assert (page.status_code, "expired" in page.content.decode()) == (410, True)
    assert not StoredSignal.objects.exists()


def test_a_changed_link_is_refused(client: Client) -> None:
    asked(link_tasks.asks)
    url = sent[0]

    for changed in (url[:-3] + "/", url.replace("/signals/", "/signals/x"), "/signals/nothing/"):
        assert client.post(changed).status_code == 404


def test_answers_that_are_too_long_together_are_refused(client: Client) -> None:
    asked(link_tasks.asks_for_much)

    answer = client.post(sent[0], {f"text {number}": 2000 * "€" for number in range(40)})

    assert (answer.status_code, "Is it too long?" in answer.content.decode()) == (400, True)
    assert not StoredSignal.objects.exists()


def test_a_link_that_no_key_decrypts_is_refused(client: Client, settings: Settings) -> None:
    asked(link_tasks.asks_in_secret)
    settings.PGQUEUE = {"ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}

    assert client.get(sent[0]).status_code == client.post(sent[0]).status_code == 400


def test_a_link_for_a_task_that_is_not_known_here_is_refused(client: Client) -> None:
    asked(link_tasks.asks)
    Message.objects.update(task="tests.nowhere.gone")

    assert client.get(sent[0]).status_code == client.post(sent[0]).status_code == 400


def test_a_link_of_a_database_that_is_gone_is_refused(client: Client) -> None:
    token = signing.dumps({"by": "gone", "id": 1}, salt=SALT)

    assert client.post(f"/signals/{token}/").status_code == 404


def test_a_form_of_another_site_is_refused() -> None:
    asked(link_tasks.asks)

    assert Client(enforce_csrf_checks=True).post(sent[0]).status_code == 403


def test_the_payload_of_an_encrypted_task_is_not_in_its_link(client: Client) -> None:
    result = asked(link_tasks.asks_in_secret)
    text = sent[0].split("/")[2].split(":")[0].lstrip(".")
    plain = zlib.decompress(base64.urlsafe_b64decode(text + "=="))

    assert b"hush" not in plain
    client.post(sent[0])
    assert returned(result) == "hush"


def may_answer(request: HttpRequest, link: SignalLink) -> bool | HttpResponse:
    if link.payload is False:
        return HttpResponse("Log in.", status=401)
    return request.headers.get("X-User") == "ann" and link.task.endswith(".asks")


urlpatterns = [path("s/<str:token>/", link_view(authorize=may_answer), name="pgqueue_signal")]


@pytest.mark.urls(__name__)
def test_a_project_decides_who_may_answer(client: Client) -> None:
    result = asked(link_tasks.asks)
    yes, no = sent

    assert client.get(yes).status_code == client.post(yes).status_code == 403
    assert "Refund" not in client.get(yes).content.decode()
    assert client.post(no).status_code == 401
    assert client.post(yes, headers={"X-User": "ann"}).status_code == 200
    assert returned(result) == "yes"


def test_a_link_begins_with_the_address_of_the_site(settings: Settings) -> None:
    settings.PGQUEUE = {"BASE_URL": "https://shop.example/"}
    asked(link_tasks.asks)

    assert all(url.startswith("https://shop.example/signals/") for url in sent)
    with pytest.raises(Exception, match="BASE_URL"):
        read({"BASE_URL": "shop.example"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"expires": None}, "expires=None"),
        ({"expires": "soon"}, "expires='soon'"),
        ({"fields": ["why"], "payload": 3}, "must be a dict"),
        ({"fields": "why"}, "must be a list of names"),
        ({"fields": [3]}, "must be a list of names"),
    ],
)
def test_an_option_that_is_wrong_is_named(options: dict[str, Any], said: str) -> None:
    link_tasks.gives.enqueue(options)

    with pytest.raises(InvalidStep, match=said):
        run_all(raise_errors=True)


def test_a_link_that_would_be_too_long_is_refused() -> None:
    link_tasks.gives_much.enqueue()

    with pytest.raises(InvalidArgument, match="characters"):
        run_all(raise_errors=True)


@pytest.mark.urls("tests.inbox.urls")
def test_a_project_without_the_page_is_told_so() -> None:
    link_tasks.asks.enqueue()

    with pytest.raises(InvalidStep, match=r"pgqueue\.durable\.urls"):
        run_all(raise_errors=True)


def test_a_hook_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="authorize='yes'"):
        link_view(authorize="yes")  # type: ignore[arg-type]
