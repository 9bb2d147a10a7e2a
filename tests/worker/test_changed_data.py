"""Rows, classes and functions that have changed between the enqueue of a message and its run."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ObjectDoesNotExist
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue import Defer, NewerPayload, PayloadTooLarge, task
from pgqueue.codec.arguments import ARGUMENTS, PAYLOAD_LIMIT
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State
from pgqueue.tasks import Task
from pgqueue.worker import failures
from tests.eventually import eventually
from tests.processes import worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ATTEMPTS = 3


class Colour(Enum):
    RED = "red"


class Size(Enum):
    SMALL = 0.5


@dataclass
class Parcel:
    weight: int
    colour: Colour = Colour.RED


@task(max_attempts=ATTEMPTS, backoff=[0])
def send(parcel: Parcel) -> None: ...


@task(max_attempts=ATTEMPTS, backoff=[0])
def paint(colour: Colour) -> None: ...


@task(max_attempts=ATTEMPTS, backoff=[0])
def measure(size: Size) -> None: ...


@task(max_attempts=ATTEMPTS, backoff=[0])
def anything(value): ...  # type: ignore[no-untyped-def]


@task(max_attempts=ATTEMPTS, backoff=[0], atomic=True)
def atomically(parcel: Parcel) -> None: ...


@task(max_attempts=ATTEMPTS, backoff=[0])
async def in_a_loop(parcel: Parcel) -> None: ...


@task(encrypted=True)
def seal(parcel: Parcel) -> None: ...


@task(max_attempts=3, backoff=[1000, 2000])
def rename(group: Group) -> str:
    group.name += "!"
    return group.name


@task(max_attempts=ATTEMPTS, backoff=[0])
def read_another(id: str) -> None:
    send.get_result(id).args  # noqa: B018


@task
def put_off() -> None:
    raise Defer(1000)


def handed_back(id: int, times: int, reason: failures.Reason = failures.NEWER) -> None:
    """Have a message been handed back so often."""
    note = {"handed_back": {"for": reason.name, "times": times}}
    Message.objects.filter(pk=id).update(metadata=note, attempt=times)


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=1)


def enqueue_raw(job: Task[..., Any], args: str, kwargs: str = "{}") -> int:
    """Store a message as newer code would, or SQL."""
    message = Message.objects.create(
        channel="default",
        task=job.name,
        payload={},
        state="ready",
        max_attempts=job.max_attempts or 5,
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_message SET payload = jsonb_build_object('args', %s::jsonb, "
            "'kwargs', %s::jsonb) WHERE id = %s",
            [args, kwargs, message.pk],
        )
    return message.pk


NEWER_PARCEL = {"args": [{"weight": 1, "height": 2}], "kwargs": {}}
NEWER: dict[str, tuple[Task[..., Any], str, str]] = {
    "a field of a dataclass": (send, '[{"weight": 1, "height": 2}]', "{}"),
    "a field deep inside": (send, "[]", '{"parcel": {"weight": 1, "more": {}}}'),
    "a member of an enum": (paint, '["blue"]', "{}"),
    "a member of an enum by its name": (measure, '["LARGE"]', "{}"),
    "a type": (anything, '[{"@": "duration", "value": "P1D"}]', "{}"),
    "a named parameter": (anything, "[1]", '{"unit": "kg"}'),
    "a positional parameter": (anything, "[1, 2]", "{}"),
    "an atomic task": (atomically, '[{"weight": 1, "height": 2}]', "{}"),
}


class TestWhatNewerCodeHasWritten:
    @pytest.mark.parametrize("what", NEWER)
    def test_is_handed_back_uncharged_each_time_for_longer(
        self, what: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, later = (enqueue_raw(*NEWER[what]) for _ in range(2))
        handed_back(later, 3)

        with caplog.at_level(logging.WARNING):
            drain()

        both = Message.objects.order_by("pk")
        assert [each.state for each in both] == [State.SCHEDULED] * 2
        assert [(each.failures, each.errors) for each in both] == [(0, [])] * 2
        waits = [(each.run_at - each.claimed_at).total_seconds() for each in both]
        assert 25 < waits[0] < 35
        assert 200 < waits[1] < 260
        assert f"#{first} is left to a worker with newer code, for 30 s: " in caplog.text
        assert "Traceback" not in caplog.text

    def test_is_so_in_an_event_loop(self) -> None:
        enqueue_raw(in_a_loop, '[{"weight": 1, "height": 2}]')

        drain("--async", "1")

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)

    def test_is_run_by_the_worker_that_knows_it(self) -> None:
        id = enqueue_raw(send, '[{"weight": 1, "height": 2}]')
        drain()

        Message.objects.update(payload={"args": [{"weight": 1}], "kwargs": {}})
        Message.objects.all().run_now()
        drain()

        ended = History.objects.get(pk=id)
        assert (ended.outcome, ended.attempt, ended.failures) == (Outcome.SUCCEEDED, 2, 0)

    @pytest.mark.parametrize("what", NEWER)
    def test_fails_as_configured_once_no_newer_worker_has_come_for_an_hour(self, what: str) -> None:
        id = enqueue_raw(*NEWER[what])
        handed_back(id, failures.MOST_HANDED_BACK)

        drain()

        dead = Message.objects.get(pk=id)
        assert (dead.state, dead.failures) == (State.DEAD, ATTEMPTS)
        assert {each["class"] for each in dead.errors} == {"pgqueue.exceptions.NewerPayload"}

    def test_is_waited_for_as_long_after_deferrals_that_its_task_asked_for(self) -> None:
        id = enqueue_raw(put_off, "[]")
        for _ in range(failures.MOST_HANDED_BACK + 1):
            drain()
            Message.objects.all().run_now()
        Message.objects.filter(pk=id).update(task=send.name, payload=NEWER_PARCEL)

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert 25 < (message.run_at - message.claimed_at).total_seconds() < 35

    def test_is_waited_for_as_long_after_each_deferral(self) -> None:
        id = enqueue_raw(put_off, "[]")
        handed_back(id, failures.MOST_HANDED_BACK)

        drain()

        assert Message.objects.get().metadata == {}

    def test_is_waited_for_as_long_after_hand_backs_for_another_reason(self) -> None:
        id = enqueue_raw(send, '[{"weight": 1, "height": 2}]')
        handed_back(id, failures.MOST_HANDED_BACK, failures.UNBEGUN)

        drain()

        assert Message.objects.get().metadata == {
            "handed_back": {"for": "newer payload", "times": 1}
        }

    def test_is_waited_for_as_long_after_a_replay(self) -> None:
        id = enqueue_raw(send, '[{"weight": 1, "height": 2}]')
        handed_back(id, failures.MOST_HANDED_BACK)
        drain()
        assert Message.objects.get().state == State.DEAD

        Message.objects.all().replay()
        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)

    @pytest.mark.parametrize("own", [3, "yes", None, {"times": "many", "for": "newer payload"}, []])
    def test_is_counted_whatever_a_producer_wrote_under_that_name(self, own: Any) -> None:
        id = enqueue_raw(send, '[{"weight": 1, "height": 2}]')
        Message.objects.filter(pk=id).update(metadata={"handed_back": own, "more": 1})

        drain()

        message = Message.objects.get()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert message.metadata == {
            "handed_back": {"for": "newer payload", "times": 1},
            "more": 1,
        }

    def test_leaves_alone_a_producer_s_own_word_of_that_name(self) -> None:
        id = enqueue_raw(put_off, "[]")
        Message.objects.filter(pk=id).update(metadata={"handed_back": "by the shop"})

        drain()

        assert Message.objects.get().metadata == {"handed_back": "by the shop"}

    def test_is_waited_for_for_about_an_hour(self) -> None:
        waits = [min(30 * 2**number, 600) for number in range(failures.MOST_HANDED_BACK)]

        assert sum(waits) == 65.5 * 60

    def test_fails_at_once_where_the_task_reads_it_itself(self) -> None:
        id = enqueue_raw(send.using(channel="other"), '[{"weight": 1, "height": 2}]')
        Message.objects.filter(pk=id).update(channel="other")
        result = read_another.enqueue(str(id))

        drain("--channel", "default")

        result.refresh()
        assert (result.status, result.failures) == (State.DEAD, ATTEMPTS)

    @pytest.mark.parametrize(
        "call",
        [
            '{"args": [{"weight": 1, "hidden": 2}], "kwargs": {}}',
            '{"args": [{"weight": 1}], "kwargs": {"hidden": 1}}',
        ],
    )
    def test_is_not_quoted_where_it_is_encrypted(
        self, call: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        sealed: Any = seal.codec
        payload = json.loads(sealed._sealed(ARGUMENTS, call, PAYLOAD_LIMIT, PayloadTooLarge))
        message = Message.objects.create(
            channel="default", task=seal.name, payload=payload, state="ready", max_attempts=1
        )

        drain()

        message.refresh_from_db()
        assert (message.state, message.failures) == (State.SCHEDULED, 0)
        assert f"#{message.pk} is left to a worker with newer code" in caplog.text
        assert "hidden" not in caplog.text


class TestWhatNoCodeCanRead:
    @pytest.mark.parametrize(
        ("job", "args"),
        [(send, '[{"colour": "red"}]'), (rename, '["no key"]')],
    )
    def test_is_dead_at_once(self, job: Task[..., Any], args: str) -> None:
        id = enqueue_raw(job, args)

        drain()

        dead = Message.objects.get(pk=id)
        assert (dead.state, dead.failures) == (State.DEAD, 1)


class TestARowThatIsGone:
    @pytest.fixture
    def message(self) -> Message:
        group = Group.objects.create(name="staff")
        rename.enqueue(group)
        group.delete()
        return Message.objects.get()

    def test_is_tried_again_when_the_backoff_says(self, message: Message) -> None:
        waits = []
        with worker("--threads", "1") as process:
            for number in (1, 2, 3):
                eventually(lambda number=number: failed(message, number), within=20)
                waits.append((message.run_at - message.claimed_at).total_seconds())
                Message.objects.filter(state=State.SCHEDULED).run_now()
            process.signal(signal.SIGTERM)
            process.exit_status()

        assert message.state == State.DEAD
        assert [round(each, -2) for each in waits[:2]] == [1000, 2000]
        told = [line for line in process.log.splitlines() if " ERROR " in line]
        assert len(told) == 1 and told[0].endswith("failed on attempt 3: dead letter")
        assert "backoff" not in process.log

    def test_is_no_reason_not_to_find_its_message(self, message: Message) -> None:
        result = rename.get_result(message.pk)

        with pytest.raises(ObjectDoesNotExist):
            result.args  # noqa: B018
        assert result.cancel()
        result.refresh()
        assert result.status == Outcome.CANCELLED

    def test_is_no_reason_not_to_find_one_that_succeeded(self) -> None:
        group = Group.objects.create(name="staff")
        id = rename.enqueue(group).id
        drain()
        group.delete()

        result = rename.get_result(id)

        assert (result.status, result.return_value) == (Outcome.SUCCEEDED, "staff!")


def failed(message: Message, failures: int) -> bool:
    """Look at a message again; return whether it has failed so often."""
    message.refresh_from_db()
    return message.failures == failures


def test_a_message_is_looked_up_without_a_query_for_its_arguments() -> None:
    group = Group.objects.create(name="staff")
    id = rename.enqueue(group).id

    with CaptureQueriesContext(connection) as queries:
        result = rename.get_result(id)

    assert not [each for each in queries if "auth_group" in each["sql"]]
    assert list(result.args) == [group]


def test_the_error_says_what_is_not_known_here() -> None:
    wrong: dict[str, Callable[[], Any]] = {
        "has no field 'height'": lambda: send.codec.decode('{"args": [{"height": 1}]}'),
        "has no member 'blue'": lambda: paint.codec.decode('{"args": ["blue"]}'),
        "it has no parameter 'unit'": lambda: anything.codec.check_known([1], {"unit": 1}),
        "it takes 1 positional arguments, and got 2": lambda: anything.codec.check_known(
            [1, 2], {}
        ),
    }

    for text, read in wrong.items():
        with pytest.raises(NewerPayload, match=text):
            read()
