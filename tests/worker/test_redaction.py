"""What is redacted of a message is in no line of the log, and in no error that is stored."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command

from pgqueue import receive, send, signals
from pgqueue.events.buffering import BufferedPublisher
from pgqueue.logs import JSONFormatter, RunFilter
from pgqueue.models import Message
from pgqueue.redaction import MASK
from pgqueue.tasks import Task
from tests.cards import (
    CARD,
    NUMBER,
    SECRETS,
    TOKEN,
    charge,
    decline,
    decline_async,
    decline_atomically,
    sign_in,
    take,
)

pytestmark = pytest.mark.django_db(transaction=True)

LOOP = ["--async", "2"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("pgqueue")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield caplog
    logger.setLevel(before)


def lines(log: pytest.LogCaptureFixture) -> str:
    """Return all that two formatters make of the records."""
    by_names, as_json = logging.Formatter(), JSONFormatter()
    for record in log.records:
        RunFilter().filter(record)
    # The first one leaves its text of an exception with the record.
    told = [as_json.format(record) for record in log.records]
    return "\n".join(told + [by_names.format(record) for record in log.records])


def drain(*arguments: str) -> None:
    call_command("runworker", "--drain", "--threads", "1", *arguments, verbosity=1)


@pytest.mark.parametrize(
    ("failing", "args", "kwargs", "arguments"),
    [
        (decline, [CARD], {"token": TOKEN}, []),
        (decline, [[{"number": NUMBER}]], {}, []),
        (decline_atomically, [CARD], {}, []),
        (decline_async, [CARD], {}, []),
        (decline_async, [CARD], {}, LOOP),
        (sign_in, ["Ada", TOKEN], {}, []),
        (charge, [7, CARD], {}, []),
    ],
)
def test_no_secret_is_logged_or_stored_with_an_error_from_the_enqueue_to_the_dead_letter(
    failing: Task[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    arguments: list[str],
    log: pytest.LogCaptureFixture,
) -> None:
    result = failing.enqueue(*args, **kwargs)

    drain(*arguments)

    told = lines(log)
    errors = json.dumps([each.errors for each in Message.objects.all()])
    assert f"{failing.name} #{result.id}" in told
    assert not [secret for secret in SECRETS if secret in told]
    assert not [secret for secret in SECRETS if secret in errors]
    if failing is not charge:
        assert MASK in told
        assert MASK in errors
        assert "Traceback" in told


def test_an_argument_that_can_not_be_read_is_not_quoted(log: pytest.LogCaptureFixture) -> None:
    take.enqueue(Decimal(1))
    Message.objects.update(payload={"args": [f"{CARD} is no number"], "kwargs": {}})

    drain()

    [error] = Message.objects.get().errors
    assert error["message"].startswith("argument 'number' of tests.cards.take can't be read")
    assert "4111" not in lines(log) + json.dumps(error)


def test_receivers_of_signals_get_the_error_itself(log: pytest.LogCaptureFixture) -> None:
    heard = []

    def hear(sender: Any, ending: Any, **_: Any) -> None:
        heard.append(str(ending.error))

    signals.task_finished.connect(hear)
    try:
        sign_in.enqueue("Ada", TOKEN)
        drain()
    finally:
        signals.task_finished.disconnect(hear)

    assert heard == [f"Ada has not the password {TOKEN}"]


def test_the_error_that_a_consumer_gives_is_stored_without_secrets() -> None:
    send("mail", {"to": "Ada", "password": TOKEN})

    with receive("mail", wait=5) as deliveries:
        delivery = next(iter(deliveries))
        delivery.retry(0, error=f"refused: {TOKEN}")

    assert Message.objects.get().errors[-1]["message"] == f"refused: {MASK}"


def test_an_event_that_can_not_be_published_is_logged_without_secrets(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.events.buffering.LAST_TRIES", 0.0)
    publisher = BufferedPublisher(flush_every=3600)
    publisher.publish("user.made", {"name": "Ada", "password": TOKEN})
    monkeypatch.setattr(publisher, "flush", lambda: 1 / 0)

    publisher.close()

    assert "Ada" in lines(log)
    assert TOKEN not in lines(log)
