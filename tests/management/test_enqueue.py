"""`manage.py pgqueue_enqueue`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError

from pgqueue import Channel, task
from pgqueue.models import Message
from pgqueue.states import Outcome
from pgqueue.testing import run_all
from tests import jobs
from tests.management.calling import call
from tests.processes import manage

ADD = "tests.jobs.add"
MAIL = "tests.jobs.mail"


@task
def pay(amount: Decimal) -> str:
    return str(amount)


def test_a_task_is_enqueued_with_its_own_options(db: None) -> None:
    called = call("pgqueue_enqueue", MAIL, 'address="ada@example.com"')

    message = Message.objects.get()
    assert called.out == f"Enqueued message {message.pk}.\n"
    assert (message.task, message.channel, message.priority) == (MAIL, "mail", 5)
    assert message.payload == {"args": [], "kwargs": {"address": "ada@example.com"}}


@pytest.mark.parametrize(
    "words",
    [["--args=[3, 4]"], ["a=3", "b=4"], ["--kwargs", '{"a": 3, "b": 4}'], ["--args=[3]", "b=4"]],
)
def test_arguments_are_json_by_position_or_by_name(db: None, words: list[str]) -> None:
    call("pgqueue_enqueue", ADD, *words)

    [result] = run_all()
    assert (result.status, result.return_value) == (Outcome.SUCCEEDED, 7)


@pytest.mark.parametrize(
    "words", [["amount={}"], ["--args=[{}]"], ["--kwargs", '{{"amount": {}}}']]
)
@pytest.mark.parametrize("digits", ["1.234567890123456789", "1e400", "-0.10"])
def test_a_number_keeps_its_digits(db: None, words: list[str], digits: str) -> None:
    call("pgqueue_enqueue", f"{__name__}.pay", *(each.format(digits) for each in words))

    [result] = run_all(raise_errors=True)
    assert result.return_value == str(Decimal(digits))


@pytest.mark.parametrize("value", ["1e99999999999999999999", "NaN", '"\\u0000"'])
def test_a_value_that_json_or_postgresql_does_not_have_is_refused(db: None, value: str) -> None:
    with pytest.raises(CommandError, match="amount="):
        call("pgqueue_enqueue", f"{__name__}.pay", f"amount={value}")

    assert not Message.objects.exists()


def test_an_argument_is_what_the_type_hint_says(db: None) -> None:
    group = Group.objects.create(name="old")

    call("pgqueue_enqueue", "tests.jobs.rename", f"group={group.pk}", 'name="new"')
    run_all(raise_errors=True)

    group.refresh_from_db()
    assert group.name == "new"


def test_options_say_where_and_when(db: None) -> None:
    words = ["--channel=later", "--key=ada", "--priority=-7", "--run-after=3600"]

    found = call("pgqueue_enqueue", ADD, "a=1", *words, "--dedupe-key=once", "--format=json").json

    message = Message.objects.get()
    assert found == {
        "task": ADD,
        "dry_run": False,
        "id": message.pk,
        "state": "scheduled",
        "channel": "later",
        "came_of": "stored",
    }
    assert (message.channel, message.key, message.priority) == ("later", "ada", -7)
    assert message.run_at - message.created_at == timedelta(hours=1)
    assert message.dedupe_key == "once"


def test_it_may_run_after_a_time(db: None) -> None:
    call("pgqueue_enqueue", ADD, "a=1", "--run-after=2126-01-01T00:00:00Z")

    assert Message.objects.get().run_at == datetime(2126, 1, 1, tzinfo=UTC)


def test_a_message_that_has_its_dedupe_key_is_named(db: None) -> None:
    words = [ADD, "a=1", "--dedupe-key=once"]
    call("pgqueue_enqueue", *words)
    id = Message.objects.get().pk

    assert call("pgqueue_enqueue", *words).out == f"Message {id} has its dedupe key already.\n"
    assert call("pgqueue_enqueue", *words, "--format=json").json["came_of"] == "existing"
    assert Message.objects.count() == 1


def test_a_dry_run_checks_and_stores_nothing(db: None) -> None:
    called = call("pgqueue_enqueue", ADD, "a=1", "--dry-run")

    assert called.out == f"{ADD} takes these arguments. Nothing was enqueued.\n"
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["tests.jobs.ad"],
            r"No task is named 'tests.jobs.ad' here. Did you mean 'tests.jobs.add'",
        ),
        (["send_receipt"], "Did you mean 'testproject.shop.tasks.send_receipt'"),
        ([ADD], "missing a required argument: 'a'"),
        ([ADD, "a=1", "c=2"], "unexpected keyword argument 'c'"),
        ([ADD, "a=one"], "it must be JSON, where text has double quotes"),
        ([ADD, "7"], "it must be NAME=JSON"),
        ([ADD, "--args=7"], "it must be a list"),
        ([ADD, "--kwargs=[]"], "it must be an object"),
        ([ADD, "a=1", "--kwargs", '{"a": 2}'], "a is named twice"),
        ([ADD, "a=1", "--priority=101"], "from -100 to 100"),
        ([ADD, "a=1", "--run-after=soon"], "it must be a time such as"),
        ([ADD, "a=1", "--dedupe-key="], "it must not be empty"),
        (["tests.jobs.rename", "group=77", 'name="a"'], "Group matching query does not exist"),
        ([ADD, "a=1", "--database=nowhere"], "DATABASES has no 'nowhere'"),
    ],
    ids=str,
)
def test_what_can_not_be_is_an_error(db: None, words: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error):
        call("pgqueue_enqueue", *words)

    assert not Message.objects.exists()


def test_a_full_channel_is_an_error_whether_it_refuses_or_drops(db: None) -> None:
    Channel("mail").policy(max_size=1)
    call("pgqueue_enqueue", MAIL, 'address="a"')

    with pytest.raises(CommandError, match="mail"):
        call("pgqueue_enqueue", MAIL, 'address="b"')
    Channel("mail").configure(on_full="drop")
    with pytest.raises(CommandError, match="The channel 'mail' is full: the message was dropped"):
        call("pgqueue_enqueue", MAIL, 'address="b"')

    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_process_enqueues_what_a_worker_can_run() -> None:
    done = manage("pgqueue_enqueue", ADD, "a=20", "b=22", "--format", "json", forked=False)
    wrong = manage("pgqueue_enqueue", ADD, "a=20", "b=")

    assert (done.returncode, done.stderr) == (0, "")
    assert wrong.returncode == 2
    assert run_all()[0].return_value == 42
    assert jobs.add.get_result(json.loads(done.stdout)["id"]).status is Outcome.SUCCEEDED


def test_a_message_that_collects_is_named(db: None) -> None:
    words = ["tests.collecting_jobs.plain", 'texts=["a"]']
    call("pgqueue_enqueue", *words)
    message = Message.objects.get()

    said = call("pgqueue_enqueue", *words).out

    assert said == f"Message {message.pk} had its dedupe key: these arguments were added.\n"
    message.refresh_from_db()
    assert message.payload["args"] == [["a", "a"]]
